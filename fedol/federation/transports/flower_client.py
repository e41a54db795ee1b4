"""The Flower ``ClientApp``: a node answers the server's one question with its knowledge file, or with why it cannot.

What the configuration may say (Flower calls it the node config):

    task       the task's folder; public: its samples, where they are not in there
    client     the client's name
    knowledge  a knowledge file that is there already; or
    model      with ``data``: what to train on them (cnn, resnet20, package.module:callable, file.py:callable);
               without: a trained model (.safetensors, .onnx, .joblib) or file.py:load, see ``predictors``
    data       the private samples: an .npz file, a folder, package.module:function or file.py:function
    width, epochs, batch-size, lr, optimiser, schedule, augment, seed, device, ...   of that training
    folds      of that training too: with masses, for a server whose method is union
    own-classes of that training too: the model and the file have the classes alone that the samples have
    outputs    logits or multilabel, where a trained model's outputs do not show what they are (``federation.outputs``)
    trust-code whether a .safetensors file that names a class as its model may have that class imported and called
    codec, key how the file is packed, and what it is signed with; release: how much less it says (``privacy.release``)
    policy     the site's rules for what may leave it (``federation.policy``); without one, nothing does
    cache      where finished files are kept, so that no question is worked on twice; and the epochs of a training, so
               that a node that was killed goes on
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from os.path import expanduser
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedol.config import recipe_of
from fedol.data import Reading
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError, cause, unknown
from fedol.federation.client import client_fit
from fedol.federation.outputs import checked
from fedol.federation.policy import Forbidden, Policy
from fedol.federation.predictors import predict_knowledge
from fedol.federation.record import Unapproved
from fedol.federation.releasing import noted
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.flower_inbox import WAITING, Values, pack, unpack
from fedol.files import private_folder, write_atomically
from fedol.knowledge import Knowledge
from fedol.knowledge.container import read_bounded
from fedol.knowledge.header import check_sender
from fedol.privacy.release import parsed, released
from fedol.secret.sealed import CODEC as SEALED
from fedol.secret.sealed import Sealed, file_for
from fedol.settings import ClientSettings, check_kinds

PARTS = ("partition-id", "num-partitions")  # Flower's own


@dataclass(frozen=True)
class Whose:
    """Which client, of which task."""

    task: str
    client: str


@dataclass(frozen=True)
class Node(ClientSettings, Whose):
    """One client's configuration."""

    model: str = ""
    data: str = ""
    knowledge: str = ""
    public: str = ""
    trust_code: bool = False
    outputs: str = ""
    codec: str = ""
    release: str = ""
    key: str = ""
    policy: str = ""
    cache: str = "~/.cache/fedol"

    @classmethod
    def read(cls, config: Mapping[str, object]) -> Node:
        """The configuration from what a person wrote."""
        known = [field.name for field in fields(cls)]
        values: dict[str, object] = {}
        for key, value in config.items():
            name = key.replace("-", "_")
            if key in PARTS:
                continue
            if name not in known:
                raise unknown("node setting", key, [other.replace("_", "-") for other in known])
            values[name] = value
        for name in ("task", "client"):
            if not values.get(name):
                raise InputError(f"The node config lacks '{name}'; write its folder anew with `fedol deploy new`.")
        node = cls(**values)  # type: ignore[arg-type]
        check_kinds(node, "node setting")
        if node.release:
            parsed(node.release)
        if not node.knowledge and not node.model:
            raise InputError("The node config names neither a 'model' nor a 'knowledge' file; give one of them.")
        return node

    def answer(self, task_id: str, fingerprint: str) -> bytes:
        """The knowledge file for this task: from the disk where it was made before, or made now and kept."""
        folder = TaskFolder.open(Path(self.task).expanduser())
        if fingerprint != folder.task.fingerprint:
            raise FedolError(
                f"The public samples of the task in {self.task} are not the server's; get its task folder."
            )
        if task_id != folder.task.id:
            raise FedolError(f"{self.task} holds the task {folder.task.id}, but the server asks for {task_id}.")
        rules = Policy.found(Path(self.policy) if self.policy else None)
        if rules is None:
            raise FedolError("This node has no policy, so nothing leaves it; say in its config which, or write one.")
        file = self._file(folder, rules)
        data = read_bounded(file, folder.task.limit)
        rules.check_leaving(file, data)
        return data

    def _file(self, folder: TaskFolder, rules: Policy) -> Path:
        """Where the knowledge file lies, which has not left yet."""
        public = folder.samples(Path(self.public).expanduser() if self.public else None)
        if self.knowledge:
            path = Path(self.knowledge).expanduser()
            data = read_bounded(path, folder.task.limit)
            try:
                _ = Sealed.decode(data, folder.task) if folder.task.secret else Knowledge.decode(data, folder.task)
            except InputError as error:
                raise InputError(f"{path} is refused: {error}.", path) from None
            return path
        key, codec = Path(self.key).expanduser() if self.key else None, self.codec or folder.task.codec
        check_sender(self.client, codec, key, folder.task)
        rules.check_making(SEALED if folder.task.secret else codec, self.release or None)
        kept = Path(self.cache).expanduser() / f"{folder.task.id}-{self.digest()}.fedol"
        if not kept.exists():
            private_folder(kept.parent)
            trained = kept.with_suffix(".safetensors")
            model = self._fit(folder, public, trained) if self.data else expanduser(self.model)
            knowledge = predict_knowledge(
                model, public, folder.task, self.client, self.trust_code, checked(self.outputs)
            )
            knowledge = released(knowledge, self.release) if self.release else knowledge
            data = file_for(folder.task, knowledge, codec, key)
            noted(kept, data, model, self.release or None)
            write_atomically(kept, data, private=True)
        return kept

    def _fit(self, folder: TaskFolder, public: Samples, out: Path) -> str:
        client_fit(
            folder.task, expanduser(self.data), expanduser(self.model), out, recipe_of(self), self.width, self.seed,
            self.device, folds=self.folds, public=public, own_classes=self.own_classes, reading=Reading.of(self),
        )  # fmt: skip
        return str(out)

    def digest(self) -> str:
        """Changes with everything that the answer depends on: the settings, and the content of the files they name."""
        later = {name: getattr(self, name) for name in ("outputs", "release")}  # settings that nodes once did not have
        other = ("cache", "trust_code", "policy", *(name for name, value in later.items() if not value))
        settings = {name: value for name, value in asdict(self).items() if name not in other}
        places = [_file(self.model), _file(self.data), self.key]
        content = [_content(Path(place).expanduser()) for place in places if place]
        return hashlib.sha256(json.dumps([settings, content], sort_keys=True).encode()).hexdigest()[:32]


def _file(source: str) -> str:
    """The file of ``file.py:callable``; anything else as it is."""
    return source.rpartition(":")[0] if ".py:" in source else source


def _content(path: Path) -> str:
    """A hash of a file, or of a folder: which files it has, where (a subfolder may be a class), and what they hold.

    Of nothing where the name is not that of a file.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            place = file.relative_to(path) if path.is_dir() else file.name
            with open(file, "rb") as stream:
                digest.update(str(place).encode() + b"\0" + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the node's own data or open what is there; an error is the answer, not an exception in a log."""
    return Message(pack(answer(unpack(message), dict(context.node_config))), reply_to=message)


def answer(question: dict[str, object], config: dict[str, object]) -> Values:
    """The values of the reply."""
    name = str(config.get("client", ""))
    try:
        data = Node.read(config).answer(str(question.get("task")), str(question.get("public")))
    except (Unapproved, Forbidden) as error:  # the numbers, and where files lie, are the site's own
        logging.getLogger("fedol.node").warning("%s", error)
        waits = isinstance(error, Unapproved)
        why = "its file waits for the site's approval" if waits else "the site's policy does not let its file leave"
        return {"client": name, "error": why, **({WAITING: True} if waits else {})}
    except FedolError as error:
        return {"client": name, "error": str(error)}
    except Exception as error:  # the node's own model and data can fail anywhere
        return {"client": name, "error": f"The node failed: {cause(error)}."}
    return {"client": name, "knowledge": data}
