"""The sending side of push. What is sent, and what answers mean, is `fanlog.push`."""
