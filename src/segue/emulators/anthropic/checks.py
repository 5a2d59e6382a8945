"""All complaints about a Messages request, in the order in which the API makes them (rulebook §5.1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from segue.emulators.anthropic import (
    fields,
    limits,
    messages,
    model_features,
    thinking,
    threads,
    tools,
    typed_blocks,
)
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.http import Request


def complaints(body: object, context: Context) -> Complaints:
    yield from _all_complaints(body, context, fields.REQUEST)
    yield from billed_customer(body, context)


@rule("ANT-01")
def billed_customer(body: object, context: Context) -> Complaints:
    """Whoever has a customer billed names the customer's profile."""
    policy = body.get("billing_policy") if isinstance(body, dict) else None
    asks = isinstance(policy, dict) and policy.get("bill_to") == "user_profile"
    if asks and not context.headers.get("anthropic-user-profile-id"):
        text = (
            "billing_policy: a user profile to bill must be named in the `anthropic-user-profile-id` header"
        )
        yield Refusal("ANT-01", text, code="user_profile_required")


@rule("ANT-31", "M")
@rule("ANT-96")
def count_complaints(body: object, context: Context) -> Complaints:
    """Counting tokens validates like answering, without the settings for output."""
    return _all_complaints(body, context, fields.COUNT_REQUEST)


def _all_complaints(body: object, context: Context, shape: fields.Record) -> Complaints:
    yield from shapes(body, context, shape)
    if not isinstance(body, dict):
        return
    yield from threads.complaints(body, context)
    body = threads.with_offered_tools(threads.whole(body, context))
    yield from model_features.complaints(body, context)
    yield from tools.complaints(body)
    yield from messages.complaints(body, context)
    yield from thinking.complaints(body, context)
    yield from limits.complaints(body, context)


@rule("ANT-04")
@rule("ANT-05")
@rule("ANT-10")
@rule("ANT-25")
@rule("ANT-26")
@rule("ANT-29")
@rule("ANT-40")
@rule("ANT-41")
@rule("ANT-51")
@rule("ANT-55")
@rule("ANT-65")
def shapes(body: object, context: Context, shape: fields.Record) -> Complaints:
    # Without a version header nothing is known about the client's betas: then none is missed.
    known = "anthropic-version" in context.headers

    def offers(beta: str) -> bool:
        return not beta or not known or typed_blocks.has_beta(context, beta)

    return fields.faults(shape, body, "", offers)


def unread_complaints(request: Request, context: Context) -> Complaints:
    """What is wrong before the body is read."""
    yield from limits.body_too_large(len(request.body))
    yield from versions(context)
    yield from betas(context)


@rule("ANT-02")
def versions(context: Context) -> Complaints:
    version = context.headers.get("anthropic-version")
    if version is None:
        yield Refusal("ANT-02", "anthropic-version: header is required")
    elif version not in ("2023-01-01", "2023-06-01", "2026-10-21"):
        yield Refusal("ANT-02", f'anthropic-version: "{version}" is not a valid version')


@rule("ANT-05")
def betas(context: Context) -> Complaints:
    """Which values exist changes weekly: one that has the form of a beta name is taken for one."""
    values = [
        value.strip() for value in context.headers.get("anthropic-beta", "").split(",") if value.strip()
    ]
    strange = [value for value in values if not re.fullmatch(r"[a-z0-9-]+-20\d\d-?\d\d-?\d\d", value)]
    if strange:
        text = (
            f"Unexpected value(s) {', '.join(f'`{value}`' for value in strange)} for the `anthropic-beta` header."
            " Please consult our documentation at docs.claude.com or try again without the header."
        )
        yield Refusal("ANT-05", text)
