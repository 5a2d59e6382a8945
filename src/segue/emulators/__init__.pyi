# Written by python -m scripts.namespaces --write

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import ask, ask_now
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say, Think
from segue.emulators.model.responder import Responder, ScriptedResponder
from segue.emulators.server import Served, serve

__all__ = [
    "App",
    "Call",
    "Emulator",
    "Fault",
    "Prompt",
    "Reply",
    "Responder",
    "Say",
    "ScriptedResponder",
    "Served",
    "Think",
    "ask",
    "ask_now",
    "serve",
]
