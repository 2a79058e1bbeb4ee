"""Trains a vision-language target from a recipe: vocabulary, rendered scenes, naming of cells, then all families."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from paceline.train import alignment, architecture, glyphs, naming, objectives, provenance, recipe, shards, vocabulary
from paceline.train.alignment import AlignmentConfig, AlignmentSource, BesideConfig, Together
from paceline.train.lessons import Asked, LessonConfig
from paceline.train.loop import LoopConfig, Result, Trainer
from paceline.train.mixture import Mixture, MixtureConfig
from paceline.train.scenes import Encoder

if TYPE_CHECKING:
    from transformers import Idefics3ForConditionalGeneration, Idefics3Processor


@dataclass(frozen=True, slots=True)
class NamingConfig:
    """Stage 0: pictures a step and its loop."""

    batch: int
    loop: LoopConfig


@dataclass(frozen=True, slots=True)
class TargetRecipe:
    """Everything that makes a target: same recipe, same machine, same weights."""

    kind: Literal["target"]
    name: str
    seed: int
    text: architecture.TextConfig
    vision: architecture.VisionConfig
    vocabulary: vocabulary.VocabularyConfig
    vocabulary_scenes: int  # training scenes of each family whose text the tokenizer learns from
    naming: NamingConfig
    mixture: MixtureConfig
    language: LoopConfig
    alignment: AlignmentConfig
    letters: AlignmentConfig
    beside: BesideConfig
    lessons: tuple[LessonConfig, ...]
    loop: LoopConfig
    glyphs: NamingConfig | None = None


def run(path: Path, output: Path, data: Path | None = None, render: bool = True) -> Result:
    """Run the recipe at `path` to the end, or on from where a killed run stopped; the model lands in `output`/model.

    Rendered scenes go to `data` (default: `output`/data) and are kept; `render=False` waits for another process.
    """
    config = recipe.load(path, TargetRecipe)
    processor = prepare_processor(config, output / "processor")
    data = data or output / "data"
    if render:
        shards.render(config.mixture.scenes, "train", Encoder(processor), data)
    model = architecture.build_target(config.text, config.vision, processor.tokenizer, config.seed)
    scenes = shards.Shards(data, "train", 0.0 if render else 600.0)
    mixture = Mixture(scenes, config.mixture, processor.tokenizer.pad_token_id)
    if not any((output / "joint").glob("step-*")):
        _prepare(model, config, mixture, processor, output)

    def keep(step: int) -> None:
        architecture.write(model, output / "model", processor)
        provenance.write(output / "model", path, name=config.name, steps=step)

    tiles = AlignmentSource(processor.tokenizer, config.seed + 1, config.beside.tiles)
    source = Together(replace(mixture, skip=config.language.steps), tiles, config.beside.steps)
    return Trainer(model, objectives.joint, source, config.loop, output / "joint", on_checkpoint=keep).run()


def render_scenes(path: Path, output: Path, data: Path | None = None) -> None:
    """Make vocabulary and rendered scenes of a recipe and nothing else, for a run with `render=False` beside it."""
    config = recipe.load(path, TargetRecipe)
    processor = prepare_processor(config, output / "processor")
    shards.render(config.mixture.scenes, "train", Encoder(processor), data or output / "data")


def prepare_processor(config: TargetRecipe, directory: Path) -> Idefics3Processor:
    """Return the processor in `directory`; train its vocabulary first when there is none."""
    if not (directory / "tokenizer.json").is_file():
        texts = shards.texts(config.mixture.shares, config.vocabulary_scenes)
        tokenizer = vocabulary.train_tokenizer(texts, config.vocabulary.size, config.text.positions)
        vocabulary.build_processor(tokenizer, config.vocabulary).save_pretrained(directory)
    return vocabulary.load_processor(directory)


def _prepare(
    model: Idefics3ForConditionalGeneration,
    config: TargetRecipe,
    mixture: Mixture,
    processor: Idefics3Processor,
    output: Path,
) -> None:
    """Run the stages before joint training, or on from the one that was stopped.

    The tower goes back to what naming taught it after the language stage: a language model that cannot speak yet sends
    it little but noise.
    """
    namer = naming.CellNamer(model, config.text.width, config.seed + 1)
    cells = naming.CellSource(config.seed, config.naming.batch)
    Trainer(namer, naming.name_cells, cells, config.naming.loop, output / "naming").run()
    taught = {name: value.clone() for name, value in namer.state_dict().items()}
    Trainer(model, objectives.joint, mixture, config.language, output / "language").run()
    namer.load_state_dict(taught)
    _look(model, processor, config.alignment, config.seed, output / "alignment")
    alignment.level(model, AlignmentSource(processor.tokenizer, config.seed, 32).micro_batches(0)[0])
    for lesson in config.lessons:
        set_sight(model, lesson.tiles > 0)
        asked = Mixture(Asked(mixture.scenes, lesson.kinds), lesson.mixture(config.mixture), mixture.pad)
        beside = AlignmentSource(processor.tokenizer, config.seed + 2, max(lesson.tiles, 2))
        source = Together(asked, beside, lesson.loop.steps if lesson.tiles else 0)
        Trainer(model, objectives.joint, source, lesson.loop, output / lesson.name).run()
    if config.glyphs:
        words = tuple(word for word, _ in alignment.words(processor.tokenizer))
        namer = glyphs.GlyphNamer(model, config.vision.width, config.seed + 6)
        source = glyphs.GlyphSource(words, config.seed, config.glyphs.batch)
        Trainer(namer, glyphs.name_glyphs, source, config.glyphs.loop, output / "glyphs").run()
    _look(model, processor, config.letters, config.seed + 3, output / "letters")


def _look(
    model: Idefics3ForConditionalGeneration,
    processor: Idefics3Processor,
    config: AlignmentConfig,
    seed: int,
    directory: Path,
) -> None:
    """Train tower and connector alone on alignment tiles."""
    model.requires_grad_(False)
    set_sight(model, True)
    tiles = AlignmentSource(processor.tokenizer, seed, config.tiles, config.things_every)
    Trainer(model, alignment.look, tiles, config.loop, directory).run()
    model.requires_grad_(True)


def set_sight(model: Idefics3ForConditionalGeneration, learns: bool) -> None:
    """Let tower and connector learn, or stand still."""
    for part in (model.model.vision_model, model.model.connector):
        part.requires_grad_(learns)
