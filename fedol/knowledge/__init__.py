"""What a client sends, once: knowledge, the task it answers, the file it travels in."""

from fedol.knowledge.task import Task, TaskRef
from fedol.knowledge.upload import Knowledge

__all__ = ["Knowledge", "Task", "TaskRef"]
