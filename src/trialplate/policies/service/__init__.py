"""The environment as a service: HTTP and WebSocket doors in front of one run.

A :class:`~trialplate.policies.service.rendezvous.Rendezvous` is where the run and the requests meet; the rest of this
package stands in front of it. Only here and in the command line is there a web server.

Source: policy contract, section 4.2.
"""
