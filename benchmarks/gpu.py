"""What runs on a GPU: checked against float64 on the processor, timed, put beside the limits.

    python -m benchmarks.gpu --out gpu.json                      # all parts
    python -m benchmarks.gpu --out gpu.json --part radius --all-words
    python -m benchmarks.gpu --out gpu.json --small              # seconds on any processor

Every row names what was counted as work. Its fraction is that work over the time, against the
rate of a large matrix product (arithmetic) or of a large copy, bytes read and written (memory),
both measured in the same run. Beside the table of `--vectors` there are synthetic ones, and models
have the named shape with random weights, on which speed does not depend. The table in Markdown is
written next to the JSON, after every part.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from scipy.special import gammainc
from tokenizers import decoders, models, pre_tokenizers

from textpriv.data.tokens import Corpus
from textpriv.models import Encoder, Training, from_folder, generators
from textpriv.models.classifiers import features, fine_tuned
from textpriv.models.generators import Generator, generate, likeliest
from textpriv.neighbors import AllRadii, ExactSearch, fused, random_directions

EPSILONS = np.arange(5.0, 60.0, 5.0)
LENGTH = 64  # pieces of a document


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    large: tuple[int, int] = (319_774, 300)  # rows and dimensions of GloVe 840B in the paper
    narrow: tuple[int, int] = (400_000, 50)  # of GloVe 6B
    queries: int = 1 << 17
    directions: int = 1000
    words: int = 2048  # of those whose N_w is timed before all are
    steps: int = 200
    documents: int = 16_384
    batches: tuple[int, ...] = (32, 256, 1024)
    new: int = 64
    product: int = 8192
    copy: int = 1 << 30  # float32 numbers
    layers: int | None = None  # of the models; None: as they are


SMALL = Sizes(
    large=(1000, 300), narrow=(1000, 50), queries=256, directions=64, words=4, steps=2,
    documents=16, batches=(2,), new=4, product=256, copy=1 << 16, layers=1,
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One comparison with float64: the largest difference found, and what is allowed."""

    what: str
    found: float
    bound: float

    @property
    def is_right(self) -> bool:
        """NaN never is."""
        return self.found <= self.bound


@dataclass(frozen=True)
class Timed:
    """One speed, with the work that was counted and its fraction of the limit."""

    what: str
    unit: str
    per_second: float
    seconds: float
    work: str
    fraction: float


@dataclass
class Run:
    """A run's device, sizes and limits, and what was found so far; written after every part."""

    out: Path
    device: str
    sizes: Sizes
    vectors: Path | None = None  # a real table, as .npy
    all_words: bool = False  # in N_w, which takes minutes
    limits: dict[str, float] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def check(self, what: str, found: float, bound: float) -> None:
        self.checks.append(Check(what, float(found), bound))
        print(self.checks[-1], flush=True)

    def time(
        self, what: str, unit: str, action: Callable[[], object], items: float, *, work: str,
        each: float, limit: str, repeats: int = 3,
    ) -> float:  # fmt: skip
        """Median seconds of `action`, which does `items` of `each` operations or bytes."""
        action()  # compiling, caches
        seconds = float(np.median([self.seconds(action) for _ in range(repeats)]))
        self.add(what, unit, seconds, items, work=work, each=each, limit=limit)
        return seconds

    def add(
        self, what: str, unit: str, seconds: float, items: float, *, work: str, each: float,
        limit: str,
    ) -> None:  # fmt: skip
        fraction = items * each / seconds / self.limits[limit]
        work = f"{work}, of {limit}"
        self.timed.append(Timed(what, unit, items / seconds, seconds, work, fraction))
        print(self.timed[-1], flush=True)

    def seconds(self, action: Callable[[], object]) -> float:
        self.wait()
        start = time.perf_counter()
        action()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def write(self) -> None:
        found = {
            **self.machine(),
            "sizes": asdict(self.sizes),
            "limits": self.limits,
            "checks": [asdict(each) | {"is_right": each.is_right} for each in self.checks],
            "timed": [asdict(each) for each in self.timed],
            "measured": self.measured,
        }
        self.out.write_text(json.dumps(found, indent=1) + "\n")
        self.out.with_suffix(".md").write_text(self.table() + "\n")

    def machine(self) -> dict[str, str]:
        """Names and versions of the device and of what drives it."""
        found = {"device": "cpu", "torch": torch.__version__}
        if self.device != "cpu":
            found |= {"device": torch.cuda.get_device_name(), "driver": driver()}
            found["cuda"] = str(torch.version.cuda)
            found["triton"] = getattr(fused.triton, "__version__", "none")
        return found

    def table(self) -> str:
        """All that was found, in Markdown."""
        lines = ["", ", ".join(f"{name} {value}" for name, value in self.machine().items()), ""]
        lines += ["| limit | measured |", "|---|---|"]
        lines += [f"| {name} | {value:.3g} |" for name, value in self.limits.items()]
        lines += ["", "| check against float64 | found | allowed | |", "|---|---|---|---|"]
        lines += [
            f"| {c.what} | {c.found:.3g} | {c.bound:.3g} | {'ok' if c.is_right else 'WRONG'} |"
            for c in self.checks
        ]
        lines += ["", "| what | speed | seconds | work counted | fraction of the limit |"]
        lines += ["|---|---|---|---|---|"]
        lines += [
            f"| {t.what} | {t.per_second:,.0f} {t.unit} | {t.seconds:.3g} | {t.work} | "
            f"{t.fraction:.1%} |"
            for t in self.timed
        ]
        lines += [f"\n{name}: {value}" for name, value in self.measured.items()]
        return "\n".join(lines)


def driver() -> str:
    """Version of the GPU's driver."""
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    return answer.split("\n")[0].strip() or "unknown"


# --- Limits -------------------------------------------------------------------------------------

PRODUCT, COPY = "the bf16 product (FLOP/s)", "the copy (B/s)"


def limits(run: Run) -> None:
    """Rates of large products and of a large copy; random numbers, since zeros run faster."""
    size, device = run.sizes.product, run.device
    allowed = torch.backends.cuda.matmul.allow_tf32
    for name, dtype, tf32 in (
        (PRODUCT, torch.bfloat16, False),
        ("the tf32 product (FLOP/s)", torch.float32, True),
        ("the fp32 product (FLOP/s)", torch.float32, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        run.limits[name] = 2 * size**3 / rate(run, lambda a=left, b=right: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = allowed
    source = torch.randn(run.sizes.copy, device=device)
    target = torch.empty_like(source)
    run.limits[COPY] = 8 * run.sizes.copy / rate(run, lambda: target.copy_(source))
    print(run.limits, flush=True)


def rate(run: Run, action: Callable[[], object]) -> float:
    """Seconds of one of ten calls in a row, median of five such rows."""
    action()
    return float(np.median([run.seconds(lambda: [action() for _ in range(10)]) / 10
                            for _ in range(5)]))  # fmt: skip


# --- Neighbours ---------------------------------------------------------------------------------


def vectors_like(rows: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Synthetic word vectors: clusters of ten, norms and nearest neighbours as in GloVe 840B.

    There norms are 5.0 to 8.3 (1% and 99%) and the nearest neighbour is 4.5 away (medians of
    33,860 words).
    """
    shape = (rows, dimension)
    centers = rng.standard_normal((-(-rows // 10), dimension), dtype=np.float32)
    own = rng.standard_normal(shape, dtype=np.float32)
    table = 0.87 * centers[rng.integers(len(centers), size=rows)] + 0.49 * own
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    return table * np.exp(rng.normal(np.log(6.6), 0.11, (rows, 1))).astype(np.float32)


def tables(run: Run) -> Iterator[tuple[str, np.ndarray]]:
    if run.vectors is not None:
        table = np.load(run.vectors, allow_pickle=False).astype(np.float32)
        yield f"{run.vectors.stem}, {table.shape[0]:,} x {table.shape[1]}", table
    for rows, dimension in (run.sizes.narrow, run.sizes.large):
        rng = np.random.default_rng((0, dimension))
        yield f"synthetic, {rows:,} x {dimension}", vectors_like(rows, dimension, rng)


def noisy(table: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Words under the noise at epsilon = dimension / 30, of length 30 on average."""
    _, n = table.shape
    length = rng.gamma(n, 30 / n, (count, 1))
    return table[rng.integers(len(table), size=count)] + length * random_directions(count, n, rng)


def search_part(run: Run) -> None:
    rng = np.random.default_rng(1)
    for label, table in tables(run):
        exact = ExactSearch(table, device=run.device)
        some = noisy(table, 64, rng)
        found, distance = exact.nearest(some, k=1)
        truth, least = nearest_in_float64(table, some)
        run.check(f"nearest rows that differ, {label}", (found[:, 0] != truth).mean(), 0.0)
        error = np.abs(distance[:, 0] / least - 1).max()
        run.check(f"distance to the nearest, relative, {label}", error, 1e-12)
        queries = noisy(table, run.sizes.queries, rng)
        run.time(
            f"exact nearest neighbour, {label}", "queries/s",
            lambda e=exact, q=queries: e.nearest(q), len(queries),
            work="2 x rows x dimensions", each=2 * table.size, limit=PRODUCT,
        )  # fmt: skip


def nearest_in_float64(table: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest row of each query, and its distance: of ten by score, the least difference."""
    exact = table.astype(np.float64)
    scores = queries @ exact.T - (exact**2).sum(1) / 2
    ten = np.argpartition(-scores, min(10, len(exact) - 1), axis=1)[:, :10]
    distances = np.linalg.norm(queries[:, None] - exact[ten], axis=2)
    best = distances.argmin(1)[:, None]
    return np.take_along_axis(ten, best, 1)[:, 0], np.take_along_axis(distances, best, 1)[:, 0]


def radius_part(run: Run) -> None:
    rng = np.random.default_rng(2)
    sizes = run.sizes
    for label, table in tables(run):
        radii = AllRadii(ExactSearch(table, device=run.device))
        check_radii(run, radii, table, label, rng)
        if label.startswith("synthetic") and table.shape != sizes.large:
            continue
        count = len(table) if run.all_words else min(sizes.words, len(table))
        words = np.sort(rng.choice(len(table), count, replace=False))
        curves: list[np.ndarray] = []

        def kept(
            words: np.ndarray = words, radii: AllRadii = radii, curves: list[np.ndarray] = curves
        ) -> None:
            curves.append(radii.kept(words, EPSILONS, directions=sizes.directions, rng=rng))

        what = f"N_w, {sizes.directions} directions and {len(EPSILONS)} epsilons a word, {label}"
        run.time(
            f"{what}, {count:,} words", "words/s", kept, count, limit=PRODUCT,
            work="2 x rows x dimensions x directions", each=2.0 * table.size * sizes.directions,
            repeats=1 if run.all_words else 2,
        )  # fmt: skip
        run.measured[f"N_w, mean over {count:,} words, {label}"] = dict(
            zip(EPSILONS.tolist(), curves[-1].mean(1).round(5).tolist(), strict=True)
        )


def check_radii(
    run: Run, radii: AllRadii, table: np.ndarray, label: str, rng: np.random.Generator
) -> None:
    """Few and many directions a word, which take different paths, and the law of the radius."""
    exact = table.astype(np.float64)
    for words, k in ((8, 4), (3, 64)):
        ids = rng.integers(len(table), size=words)
        units = random_directions(words * k, table.shape[1], rng).reshape(words, k, -1)
        found, takers = radii.first_crossing(ids, units)
        error, others = 0.0, 0
        for row, word in enumerate(ids):
            offset = exact - exact[word]
            slope, cost = offset @ units[row].T, (offset**2).sum(1)[:, None] / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = np.where(slope > 0, cost / slope, np.inf)
            crossing[word] = np.inf
            error = max(error, float(np.abs(found[row] / crossing.min(0) - 1).max()))
            others += int((takers[row] != crossing.argmin(0)).sum())
        run.check(f"first crossing, relative, {k} directions, {label}", error, 1e-9)
        run.check(f"words that cross first and differ, {k} directions, {label}", others, 0)
    n = table.shape[1]
    masses = EPSILONS * np.quantile(found, np.linspace(0, 1, 21))[:, None]
    shape = torch.tensor(float(n), dtype=torch.float64, device=run.device)
    ours = torch.special.gammainc(shape, torch.from_numpy(masses).to(run.device)).cpu().numpy()
    run.check(f"law of the radius, {label}", np.abs(ours - gammainc(n, masses)).max(), 1e-9)


# --- Encoders -----------------------------------------------------------------------------------


def write_minilm_shape(folder: Path, layers: int | None) -> Path:
    """all-MiniLM-L6-v2 with random weights and made-up pieces."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *(f"p{number}" for number in range(30_522 - len(special)))]
    tokenizer = transformers.BertTokenizerFast(vocab={p: i for i, p in enumerate(pieces)})
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=30_522, hidden_size=384, num_hidden_layers=layers or 6, num_attention_heads=12,
        intermediate_size=1536, initializer_range=0.05,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder


def forward_flops(model: Any) -> float:
    """Per piece at LENGTH: two per weight of the layers, and the attention's two products."""
    config = model.config
    weights = sum(
        weight.numel() for name, weight in model.named_parameters()
        if weight.ndim == 2 and ".layer" in name
    )  # fmt: skip
    return 2.0 * weights + 4.0 * LENGTH * config.hidden_size * config.num_hidden_layers


def documents(count: int, pieces: int, rng: np.random.Generator) -> Corpus:
    """Documents of LENGTH pieces once [CLS] and [SEP] are added."""
    inner = LENGTH - 2
    ids = rng.integers(1000, min(pieces, 30_000), size=count * inner)
    return Corpus(ids, np.arange(count + 1) * inner)


def tune_part(run: Run) -> None:
    rng, sizes = np.random.default_rng(4), run.sizes
    with tempfile.TemporaryDirectory() as empty:
        where = write_minilm_shape(Path(empty), sizes.layers)
        encoder = from_folder("minilm", where, digest="", device=run.device)
        slow = from_folder("minilm", where, digest="", device="cpu")
    label = "MiniLM's shape"
    few = documents(32, 30_522, rng)
    ours, theirs = features(encoder, few, longest=LENGTH), features_in_float64(slow, few)
    error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    run.check(f"{label}: features, relative", error, 0.02)

    corpus, flops = documents(sizes.documents, 30_522, rng), forward_flops(encoder.model)
    for batch in (64, 512):
        run.time(
            f"{label}: features of {LENGTH} pieces, batch {batch}", "rows/s",
            lambda b=batch: features(encoder, corpus, longest=LENGTH, batch=b), len(corpus),
            work="forward", each=flops * LENGTH, limit=PRODUCT,
        )  # fmt: skip
    labels = rng.integers(2, size=len(corpus))

    def tune(steps: int) -> float:
        training = Training(steps=steps, batch=32)
        return run.seconds(
            lambda: fine_tuned(
                encoder, corpus, labels, training=training, longest=LENGTH, held_out=1e-4
            )
        )

    tune(2)
    run.add(
        f"{label}: fine-tuning, 32 x {LENGTH}", "steps/s",
        tune(2 + sizes.steps) - tune(2), sizes.steps,
        work="3 x forward", each=3 * flops * 32 * LENGTH, limit=PRODUCT,
    )  # fmt: skip


@torch.inference_mode()
def features_in_float64(encoder: Encoder, corpus: Corpus) -> np.ndarray:
    """Means of the last states, by the plain model on the processor."""
    ids = np.pad(corpus.ids.reshape(len(corpus), -1), ((0, 0), (1, 1)))
    ids[:, 0], ids[:, -1] = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    states = encoder.body.double()(input_ids=torch.from_numpy(ids)).last_hidden_state
    return states.mean(1).numpy()


# --- Generators ---------------------------------------------------------------------------------


def write_smollm_shape(folder: Path, layers: int | None) -> Path:
    """SmolLM2-135M with random weights and a tokenizer of letters."""
    end = "<|endoftext|>"
    letters = [end, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    letters += [f"Ġ{number}" for number in range(49_152 - len(letters))]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={p: i for i, p in enumerate(letters)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=end, eos_token=end
    ).save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=layers or 30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
        tie_word_embeddings=True, rope_theta=100_000.0, initializer_range=0.04,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
        model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def generate_part(run: Run) -> None:
    rng, sizes = np.random.default_rng(5), run.sizes
    with tempfile.TemporaryDirectory() as empty:
        where = write_smollm_shape(Path(empty), sizes.layers)
        writer = generators.from_folder("smollm", where, digest="", device=run.device)
        slow = generators.from_folder("smollm", where, digest="", device="cpu")
    label = "SmolLM2-135M's shape"
    texts = ["the cat sat on the mat", "it is raining again today", "who was that?", "a"]
    ours, theirs = writer.log_likelihood(texts), log_likelihood_in_float64(slow, texts)
    tokens = np.array([len(each) for each in writer.encode(texts)])
    run.check(f"{label}: nats per token", (np.abs(ours - theirs) / tokens).max(), 0.05)

    config = writer.model.config
    weights = sum(w.numel() * w.element_size() for w in writer.model.parameters())
    head = config.hidden_size // config.num_attention_heads
    per_token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * head
    start = 32
    never = without_end(writer)
    for batch in sizes.batches:
        prompts = rng.integers(1, 1000, (batch, start)).tolist()
        cached = batch * per_token * (start + sizes.new / 2)  # on average over the steps

        def write(prompts: list[list[int]] = prompts, batch: int = batch) -> None:
            outputs = list(generate(writer, prompts, never, tokens=sizes.new, batch=batch))
            assert all(len(output) == sizes.new for _, rows in outputs for output in rows)

        run.time(
            f"{label}: {sizes.new} new tokens after {start}, batch {batch}", "tokens/s", write,
            batch * sizes.new, work="weights and cache read once a step",
            each=(weights + cached) / batch, limit=COPY, repeats=2,
        )  # fmt: skip


def without_end(generator: Generator) -> Callable[[torch.Tensor, np.ndarray], np.ndarray]:
    """The likeliest token but the one that ends an output, so that all have the same length."""
    column = int(np.searchsorted(generator.sayable, generator.end))

    def choose(scores: torch.Tensor, numbers: np.ndarray) -> np.ndarray:
        scores[:, column] = -torch.inf
        return likeliest(scores, numbers)

    return choose


@torch.inference_mode()
def log_likelihood_in_float64(generator: Generator, texts: list[str]) -> np.ndarray:
    model: Any = generator.model.double()
    found = []
    for row in generator.encode(texts):
        ids = torch.tensor([[generator.opening, *row]])
        scores = model(ids).logits[0, :-1].log_softmax(1)
        found.append(float(scores.gather(1, ids[0, 1:, None]).sum()))
    return np.array(found)


# --- All of it ----------------------------------------------------------------------------------

PARTS = {
    "search": search_part, "tune": tune_part, "generate": generate_part, "radius": radius_part,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=[*PARTS])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--all-words", action="store_true", help="N_w of every word: minutes")
    parser.add_argument("--vectors", type=Path, help="a real table too, as .npy")
    chosen = parser.parse_args()
    sizes = SMALL if chosen.small else Sizes()
    run = Run(chosen.out, chosen.device, sizes, chosen.vectors, chosen.all_words)
    limits(run)
    for name in chosen.part:
        print(f"{name}: {run.seconds(partial(PARTS[name], run)):.0f} s", flush=True)
        run.write()
    print(run.table())
    if not all(check.is_right for check in run.checks):
        raise SystemExit("a check failed: see the table")


if __name__ == "__main__":
    main()
