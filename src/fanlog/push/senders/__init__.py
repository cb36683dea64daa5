"""The sending side of push. Requests and the meaning of answers are `fanlog.push.rules`."""
