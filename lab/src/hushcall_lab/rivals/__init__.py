"""Mechanisms of other authors for the same task, on the same wire, each as good as its protocol can be."""
