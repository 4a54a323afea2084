"""What the command line says of itself with --help."""

__all__: list[str] = []  # for cli.py alone

DESCRIPTION = """\
Train a Transformer, measure it, use it.

  python -m transformer_lib train --task number-words      two minutes on two CPU cores
  python -m transformer_lib train --task multi30k          English to German captions
  python -m transformer_lib evaluate --run runs/multi30k-tiny --split test_2016_flickr
  python -m transformer_lib translate --run runs/multi30k-tiny "A man is riding a bike."

  python -m transformer_lib train --task captions          a language model of the captions
  python -m transformer_lib generate --run runs/captions-tiny --top-p 0.9 "A man is"

Training that was stopped, by Ctrl-C or by a power cut, goes on when the same command is
given again. COMMAND --help says more.

The exit code is 0 for success, 1 for a failure, 2 for a wrong command, 130 after Ctrl-C and
143 after SIGTERM."""

TRAIN = """\
Train a model and keep the run in a folder:

  config.json     what was run, with which command, versions and hardware
  tokenizer.json  the vocabulary, made from training text only
  words.txt       the words that the model was given to read
  log.jsonl       one record a line: loss, learning rate, tokens per second, validation
  checkpoint.pt   the latest checkpoint; the same command again goes on from it
  best.pt         the model of the lowest validation loss; the other commands use it

Settings that are not given are the task's own. More --epochs on a finished run train on.

A model can also learn what several models say together, beside the references:

  python -m transformer_lib translate --run runs/s0 --run runs/s1 --split train --beam 5 > said.txt
  python -m transformer_lib train --task multi30k --distill said.txt --output runs/student

Tasks: multi30k (English to German captions, downloaded once), multi30k-lowercase (the same
lowercased and tokenized, as papers score it), number-words (forty-two to zweiundvierzig) and copy
are for a Transformer, which translates; captions (English ones, downloaded once), number-lines
(forty-two = 42) and shakespeare (his plays, letter by letter) for a decoder alone, which continues.

On two GPUs, or two processes of a CPU, each batch is shared:
  torchrun --nproc-per-node 2 -m transformer_lib train --task multi30k"""

SETTINGS = """\
--set reaches every setting of the model and of the training, for experiments:
  --set positions=rotary --set n_layers=2 --set tie_embeddings=False --set clip_norm=None

of the model (ModelConfig explains them):
  {}
of the training (TrainConfig explains them):
  {}"""

EVALUATE = """\
Score a run on a split: sacreBLEU with its signature and chrF for multi30k, cased and detokenized
or, for multi30k-lowercase, of lowercased tokens; perplexity for captions; nats and bits per
character, and perplexity, for shakespeare; exact match in percent for the others. The score of a
whole split is kept in the run's scores.json, with how it was decoded.

With --against, another run answers the same split in the same way, and a paired bootstrap says
how likely chance alone makes such a difference in BLEU:

  python -m transformer_lib evaluate --run runs/new --against runs/old --beam 5

Runs from different seeds do better together: their probabilities are averaged at each step, and the
score is kept with the first.

  python -m transformer_lib evaluate --run runs/s0 --run runs/s1 --run runs/s2 --beam 5"""

TRANSLATE = """\
Translate the sentences given, or the lines of the standard input:

  python -m transformer_lib translate --run runs/number-words-tiny forty-two
  python -m transformer_lib translate --run runs/multi30k-tiny < captions.txt

Words that no training text has, spelled so, are named on the standard error stream; --strict
refuses them. With --n-best each line is the sentence's number, the score (log-probability over
length penalty) and a translation, with tabs between them."""

GENERATE = """\
Continue the prompts given, or the lines of the standard input, with a language model:

  python -m transformer_lib generate --run runs/number-lines-tiny "forty-two ="
  python -m transformer_lib generate --run runs/captions-tiny --temperature 0.8 --samples 3 "A man"
  python -m transformer_lib generate --run runs/shakespeare-tiny --temperature 0.8 "ROMEO:"

Text appears as it is made. The most probable token is taken each time; with --temperature, --top-k
or --top-p one is drawn. An empty prompt leaves the beginning to the model, too. Words that no
training text has, spelled so, are named on the standard error stream; --strict refuses them."""
