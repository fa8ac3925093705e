"""Shakespeare by counting and by a small transformer: what a minute of training is worth, and a certificate that says so.

./run py examples/shakespeare.py            (LEMMATA_DATA names the folder of the plays; without them, docstrings)
"""

from lemmata import GPT, NGram, data

try:
    text, prompt = data.tiny_shakespeare().texts[0][:150_000], "ROMEO:\n"
except data.DataNotFound:
    text, prompt = "\n\n".join(data.docstrings().texts)[:150_000], "Return "

counted = NGram(order=6, random_state=0).fit([text])
print(f"6-grams: {counted.test_loss_:.3f} nats per character of the last tenth, which was kept")
print(counted.sample(prompt=prompt, length=200, temperature=0.8)[0], "\n")

model = GPT(width=64, depth=2, context=64, max_iter=2, learning_rate=4e-3, random_state=0)
model.fit([text])
print(f"GPT after {model.n_iter_} epochs: {model.test_loss_:.3f}")
print(model.sample(prompt=prompt, length=200, temperature=0.8)[0], "\n")
print(model.certificate_)
print("what fails:", ", ".join(model.certificate_.failed))
