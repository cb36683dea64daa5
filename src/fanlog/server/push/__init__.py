"""Push over HTTP: the sending side. What is sent, and what answers mean, is `fanlog.push`."""
