"""What an LDA fit is checked for until audit/topics has its claims."""

from __future__ import annotations

from lemmata.audit.attributes import attributes_sound

LDA_CLAIMS = (
    attributes_sound(
        {
            "components_": "k d | > 0",
            "doc_topic_?": "n k | >= 0, <= 1",
            "doc_topic_prior_": "k | > 0",
        }
    ),
)
