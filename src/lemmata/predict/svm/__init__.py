"""Support vector machines: the dual problem, its solution by working sets, and the estimators SVC and SVR."""
