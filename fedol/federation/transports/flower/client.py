"""The Flower ``ClientApp``: a node answers the server's one question with its knowledge file, or with why it cannot."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedol.errors import FedolError, cause
from fedol.federation.transports.flower.exchange import Values, pack, unpack
from fedol.federation.transports.flower.node import Node

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
    except FedolError as error:
        return {"client": name, "error": str(error)}
    except Exception as error:  # the node's own model and data can fail anywhere
        return {"client": name, "error": f"The node failed: {cause(error)}."}
    return {"client": name, "knowledge": data}
