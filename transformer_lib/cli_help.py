"""The help texts of the command line."""

__all__: list[str] = []  # for cli.py alone

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words      two minutes on two CPU cores
  python -m transformer_lib train --task multi30k          English to German captions
  python -m transformer_lib evaluate --run runs/multi30k-tiny --split test_2016_flickr
  python -m transformer_lib translate --run runs/multi30k-tiny "A man is riding a bike."

  python -m transformer_lib train --task captions          a language model of the captions
  python -m transformer_lib generate --run runs/captions-tiny --top-p 0.9 "A man is"

If training is interrupted, by Ctrl-C or a power cut, run the same command again to resume it.
COMMAND --help says more.

The exit code is 0 for success, 1 for a failure, 2 for a mistake in the command, 130 after
Ctrl-C and 143 after SIGTERM."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     what was run, with which command, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  words.txt       the words that the model read in training
  log.jsonl       one record per line: loss, learning rate, tokens per second, validation
  checkpoint.pt   the latest checkpoint; the same command resumes from it
  best.pt         the model with the lowest validation loss; the other commands use it

Settings that you leave out are the task's own. To train a finished run further, raise --epochs.

A model can also learn the translations of an ensemble, along with the references:

  python -m transformer_lib translate --run runs/s0 --run runs/s1 --split train --beam 5 > said.txt
  python -m transformer_lib train --task multi30k --distill said.txt --output runs/student

In four tasks, a Transformer learns to translate: multi30k (English to German captions, downloaded
once), multi30k-lowercase (the same, lowercased and tokenized, as papers score it), number-words
(forty-two to zweiundvierzig) and copy. In three, a decoder learns to continue texts: captions
(in English, downloaded once), number-lines (forty-two = 42) and shakespeare, by character.

On two GPUs, or in two processes on a CPU, each update takes a batch from both:
  torchrun --nproc-per-node 2 -m transformer_lib train --task multi30k"""

SETTINGS = """\
--set changes any setting of the model or of the training:
  --set positions=rotary --set n_layers=2 --set tie_embeddings=False --set clip_norm=None

of the model (ModelConfig explains them):
  {}
of the training (TrainConfig explains them):
  {}"""

EVALUATE = """\
Score a run on a split: sacreBLEU, with its signature, and chrF for multi30k (cased, detokenized
text) and multi30k-lowercase (lowercased tokens); perplexity for captions; nats and bits per
character, and perplexity, for shakespeare; exact match in percent for the others. The score of a
whole split is saved in the run's scores.json, along with the way it was decoded.

With --against, another run is scored on the same split in the same way, and a paired bootstrap
tells how likely it is that chance alone makes such a difference in BLEU:

  python -m transformer_lib evaluate --run runs/new --against runs/old --beam 5

Runs from different seeds do better together: their probabilities are averaged at each step. The
score is saved with the first run.

  python -m transformer_lib evaluate --run runs/s0 --run runs/s1 --run runs/s2 --beam 5"""

TRANSLATE = """\
Translate the given sentences, or the lines of standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt

Words never seen in training are listed on standard error; --strict refuses them. With --n-best,
each line holds the sentence's number, the score (log-probability divided by the length penalty)
and a translation, separated by tabs."""

GENERATE = """\
Continue the given prompts, or the lines of standard input, with a language model:

  python -m transformer_lib generate --run runs/number-lines-tiny "forty-two ="
  python -m transformer_lib generate --run runs/captions-tiny --temperature 0.8 --samples 3 "A man"
  python -m transformer_lib generate --run runs/shakespeare-tiny --temperature 0.8 "ROMEO:"

Text appears as it is generated. The most probable token is taken each time; with --temperature,
--top-k or --top-p, a token is sampled. After an empty prompt, the model writes the beginning, too.
Words never seen in training are listed on standard error; --strict refuses them."""
