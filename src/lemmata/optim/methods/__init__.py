"""Methods of minimisation as init/step pairs: descent, line searches, second order, batches, sub-gradients, penalties."""
