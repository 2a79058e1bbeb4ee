"""Trains drafters from a recipe: the target answers once, then all drafters learn from one pass of it a step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from paceline import conditioning
from paceline.drafters import METHODS, directory, method
from paceline.drafters.directory import Trained
from paceline.errors import UsageError, unknown
from paceline.train import parallel, provenance, recipe, replay
from paceline.train.answers import AnswerConfig, Answers
from paceline.train.classroom import Classroom, PackConfig, TalkSource, freeze
from paceline.train.loop import LoopConfig, Result, Trainer
from paceline.train.questions import Group, QuestionConfig, Questions
from paceline.train.recipe import RecipeError
from paceline.train.replay import Recording
from paceline.train.store import Store
from paceline.train.taps import Talk, needs_of, tap


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """One drafter of a run. `config` goes to the method's Config, `options` say how it drafts when τ is measured."""

    method: str
    name: str = ""  # of its directory; empty: the method's
    conditioner: str = "full"
    rate: float = 1.0  # factor on the learning rate
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldOutConfig:
    """τ on questions that nobody trains on, by teacher-forced replay: how many of each family, and how often."""

    scenes: Mapping[str, int] = field(default_factory=dict)  # empty: a few of each family that is trained on
    every: int = 100  # steps; 0: never

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ValueError("every must be 0 or more")


@dataclass(frozen=True, slots=True)
class DraftersRecipe:
    """Everything that makes drafters: same recipe, same target, same machine, same weights."""

    kind: Literal["drafters"]
    target: str
    seed: int
    questions: QuestionConfig
    loop: LoopConfig
    drafters: tuple[DrafterConfig, ...]
    answers: AnswerConfig = field(default_factory=AnswerConfig)
    pack: PackConfig = field(default_factory=PackConfig)
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    store: Path | None = None  # keep taps here instead of reading the target at every step
    only: str = ""  # names of the drafters to train, with commas; empty: all

    def __post_init__(self) -> None:
        names = [each.name or each.method for each in self.drafters]
        for wanted in self.only.split(",") if self.only else ():
            if wanted.strip() not in names:
                raise unknown("drafter of this recipe", wanted.strip(), names)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"drafters must be named apart, and one at least; these are {names}")
        for each in self.drafters:
            kinds = [known for known in METHODS if hasattr(method(known), "loss")]
            if each.method not in kinds:
                raise unknown("method with a loss", each.method, kinds)

    @property
    def chosen(self) -> tuple[DrafterConfig, ...]:
        """The drafters that are trained."""
        wanted = {name.strip() for name in self.only.split(",")}
        return tuple(each for each in self.drafters if not self.only or (each.name or each.method) in wanted)


def run(path: Path, output: Path, data: Path | None = None, render: bool = True, changes: Sequence[str] = ()) -> Result:
    """Run the recipe at `path`, or on from where a killed run stopped; each drafter lands in `output`/drafters/NAME.

    Answers are kept in `data` (default: `output`)/answers, so that runs can share them. Raises UsageError for a recipe
    or a place that cannot be used, Diverged for a lost run.
    """
    config = recipe.load(path, DraftersRecipe, changes)
    with parallel.group():
        return Run(config, output, data or output).train(path)


class Run:
    """One run of a recipe: target, questions, drafters."""

    def __init__(self, config: DraftersRecipe, output: Path, data: Path) -> None:
        from paceline.targets import load_target

        self.config, self.output, self.data = config, output, data
        writable(output)
        self.target = load_target(config.target)
        freeze(self.target)
        self.drafters = {each.name or each.method: make(each, self.target, config.seed) for each in config.chosen}
        self.needs = needs_of(list(self.drafters.values()), self.target.shared)
        alone = replace(config.questions, exchanges=1) if self.needs.scores else config.questions
        self.questions = Questions(alone, self.target, "train")
        held = config.held_out.scenes or dict.fromkeys(config.questions.scenes, 4)
        self.held = Questions(replace(alone, exchanges=1), self.target, "val", held)
        self.talk = lru_cache(maxsize=256)(self._talk)

    def train(self, path: Path) -> Result:
        """Answers, then lessons, then directories."""
        self.answer()
        frequency = self.answers.frequency(self.questions.groups, self.target.shared.vocab_size)
        for drafter in self.drafters.values():
            if hasattr(drafter, "speak"):
                drafter.speak(frequency)
        classroom = Classroom(self.drafters, self._reader())
        source = TalkSource(self.talk, len(self.questions.groups), self.config.pack, self.config.seed)
        rates = {f"{each.name or each.method}.": each.rate for each in self.config.chosen}
        loop = replace(self.config.loop, rates={**rates, **self.config.loop.rates})
        trainer = Trainer(
            classroom.nets, classroom, source, loop, self.output / "joint",
            on_checkpoint=lambda step: self.keep(path, step),
            parts=list(classroom.nets.children()),
            measure=self.measure if self.config.held_out.every else None,
        )  # fmt: skip
        return trainer.run()

    @property
    def answers(self) -> Answers:
        return self._answers

    def answer(self) -> None:
        """The target's answers to all questions, those held out too."""
        from paceline.drafters.free.none import NoDraft

        self._answers = Answers(self.data / "answers" / "answers.jsonl", self.target, self.config.answers)
        for questions in (self.questions, self.held):
            self._answers.ensure(questions, NoDraft(), progress("answers"))
        self.recordings = self._recorded() if self.config.held_out.every else []

    def _talk(self, number: int) -> Talk:
        group = self.questions.groups[number]
        return self._asked(self.questions, group)

    def _asked(self, questions: Questions, group: Group) -> Talk:
        return Talk(group.name, tuple(questions.prompts(group)), tuple(self._answers.ids(group)))

    def _reader(self) -> Callable[..., Any]:
        if self.config.store is None:
            return lambda numbers: tap(self.target, [self.talk(n) for n in numbers], self.needs)
        store = Store(self.config.store, self.target, self.needs, len(self.questions.groups))
        if parallel.rank() == 0:
            print(f"store {self.config.store}: {store.estimate(self.talk)}", file=sys.stderr)
            store.fill(self.talk, progress("taps"))
        parallel.wait()
        return store.read

    def _recorded(self) -> list[Recording]:
        talks = [self._asked(self.held, group) for group in self.held.groups]
        return [
            Recording(talk.prompts[0], talk.answers[0], tap(self.target, [talk], self.needs))
            for talk in talks
            if len(talk.answers[0]) > 1
        ]

    def measure(self, step: int) -> Mapping[str, float]:
        """Held-out τ of every drafter, every so many steps."""
        from paceline.trace import tau

        if step % self.config.held_out.every and step != self.config.loop.steps:
            return {}
        if parallel.rank() or not self.recordings:
            return {}
        found: dict[str, float] = {}
        for each in self.config.chosen:
            name = each.name or each.method
            drafter: Any = directory.with_options(self.drafters[name], each.options)
            drafter.net.eval()
            told = replay.rounds(self.recordings, drafter)
            drafter.net.train()
            found[f"{name}/tau"] = round(tau([one for rounds in told for one in rounds]), 4)
        return found

    def keep(self, path: Path, step: int) -> None:
        """Write every drafter as it is now."""
        facts = {**provenance_of(path, self.answers), "steps": step, "seed": self.config.seed}
        for each in self.config.chosen:
            name = each.name or each.method
            where = self.output / "drafters" / name
            directory.write(where, each.method, self.drafters[name], self.target, facts)


def make(config: DrafterConfig, target: Any, seed: int) -> Trained:
    """A new drafter. Raises RecipeError for keys that its method does not know, with the nearest."""
    kind = method(config.method)
    where = f"drafters.{config.name or config.method}"
    built = recipe.build(kind.Config, config.config, f"{where}.config.")
    drafter = kind.create(target.shared, built, conditioning.parse(config.conditioner), seed=seed)
    directory.with_options(drafter, config.options)
    return drafter


def plan(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved recipe as plain data, with what each drafter weighs: what `--plan` prints. Nothing is written."""
    import dataclasses

    from paceline.targets import load_target

    config = recipe.load(path, DraftersRecipe, changes)
    target = load_target(config.target)
    drafters = {each.name or each.method: make(each, target, config.seed) for each in config.chosen}
    needs = needs_of(list(drafters.values()), target.shared)
    resolved = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    resolved["drafters"] = [d for d in resolved["drafters"] if (d["name"] or d["method"]) in drafters]
    for each, drafter in zip(resolved["drafters"], drafters.values(), strict=True):
        each["config"] = json.loads(json.dumps(dataclasses.asdict(drafter.config)))
        each["parameters"] = sum(p.numel() for p in drafter.net.parameters())
    groups = Questions(config.questions, target, "train").groups
    return {
        **resolved,
        "taps": {"layers": list(needs.layers), "embeddings": needs.embeddings, "scores": needs.scores},
        "talks": len(groups),
        "answers_wanted": sum(group.count for group in groups),
        "epochs": round(config.loop.steps * config.pack.talks_per_step / max(len(groups), 1), 2),
    }


def writable(output: Path) -> None:
    """Raise UsageError unless files can be made there."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        probe = output / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--output {output} cannot be written: {error.strerror}") from error


def progress(what: str) -> Callable[[int, int], None]:
    """A line that counts on a terminal; silence elsewhere and in all processes but the first."""

    def show(done: int, count: int) -> None:
        if sys.stderr.isatty() and parallel.rank() == 0:
            print(f"\r{what} {done:,}/{count:,}", end="\n" if done == count else "", file=sys.stderr, flush=True)

    return show


def provenance_of(path: Path, answers: Answers) -> dict[str, Any]:
    """Command, commit, versions, and hashes of recipe and data."""
    import hashlib

    return {
        "command": " ".join(["paceline", *sys.argv[1:]]),
        "commit": _commit(),
        "versions": provenance.versions(),
        "recipe": path.name,
        "recipe_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "answers_sha256": hashlib.sha256(answers.path.read_bytes()).hexdigest(),
    }


def _commit() -> str | None:
    """Of the source checkout that runs, or None where it is no checkout."""
    here = Path(__file__).resolve().parent
    done = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


__all__ = ["DraftersRecipe", "RecipeError", "Run", "plan", "run"]
