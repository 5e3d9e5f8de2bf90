"""The built-in task: addition with a scratch pad, for machines without a GPU, a model hub or a data hub."""
