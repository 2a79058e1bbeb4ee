"""A processor whose small vocabulary was learnt from a few scenes of the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paceline.tasks import FAMILIES
from paceline.train import shards, vocabulary


@pytest.fixture(scope="session")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp("processor")
    tokenizer = vocabulary.train_tokenizer(shards.texts(FAMILIES, 3), 420)
    vocabulary.build_processor(tokenizer, vocabulary.VocabularyConfig(size=420)).save_pretrained(directory)
    return vocabulary.load_processor(directory)
