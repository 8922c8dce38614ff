"""Measurements that are no training: error of the mean, variance of an update, time of a client."""
