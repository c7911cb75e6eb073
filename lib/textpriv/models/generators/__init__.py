"""Language models that write: verified weights, likelihood of texts, generation in batches.

    generator = load_generator()                       # SmolLM2-135M-Instruct, no code run
    prompts = [generator.ask(message) for message in messages]    # as a chat where it has one
    for numbers, outputs in generate(generator, prompts, likeliest, tokens=48):
        ...                                            # tokens of a batch of prompts
    generator.log_likelihood(["it is raining", ...])   # ln P(text), (texts,)
    prefixes = Prefixes(generator, prompt)             # for a search: every token is run once
    states = prefixes.grow(parents, tokens)            # what the model knows after each token
    generator.next_log_probability(states, tokens)     # ln P(token | all before it)

`generate` takes any model of the hub that writes from left to right, with an encoder (T5, BART)
or without (GPT-2, GPT-NeoX, Llama). What chooses the next token is a function of the scores:
`likeliest`, `Sampled`, or a mechanism. The rest is about causal models only.
"""

from textpriv.channel import IntArray
from textpriv.models.generators.generator import Generator, from_folder, load_generator
from textpriv.models.generators.prefixes import ROOT, Prefixes
from textpriv.models.generators.sampling import Sampled, draw, likeliest
from textpriv.models.generators.writing import generate, generate_both
