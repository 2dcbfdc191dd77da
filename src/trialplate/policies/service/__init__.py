"""The environment as a service: HTTP and WebSocket doors in front of one run.

A :class:`~trialplate.policies.rendezvous.Rendezvous` is where the run and the requests meet; this package is what
stands in front of it. Only here and in the command line is there a web server.

Source: policy contract, section 4.2.
"""

from trialplate.policies.service.desk import Counts, Desk
from trialplate.policies.service.http import service_app
from trialplate.policies.service.listener import Listener
from trialplate.policies.service.token import token_from

__all__ = ["Counts", "Desk", "Listener", "service_app", "token_from"]
