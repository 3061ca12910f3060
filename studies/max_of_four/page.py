"""Study: max-of-4. What whole runs found (studies/results), and one of them again."""

# --8<-- [start:max-of-four]
import tsc_interp as tsc
from studies.external import mean_accuracy, wrong_by_maximum
from studies.keep import model, results

maximum = tsc.verify(model("max_of_four"), lengths=[4])
print(f"{maximum.wrong:,} of {maximum.strings:,} sequences are wrong,")
print(f"{maximum.undecided} undecided; the search examined", end=" ")
print(f"{maximum.lengths[0].regions:,} regions")
print("first wrong:", *maximum.shortest.tokens, "- the model's answer is", maximum.shortest.answer)
# --8<-- [end:max-of-four]
four = results("max_of_four", 3)
assert maximum.wrong == four[0]["wrong"]

# --8<-- [start:max-of-four-mean]
print(f"Over these five seeds {mean_accuracy(four)}. Over eleven other seeds, 0 to 10, "
      f"{mean_accuracy(results('max_of_four_fresh', 3))}. Each accuracy is exact; only their mean "
      "is a sample.")  # fmt: skip
# --8<-- [end:max-of-four-mean]

# --8<-- [start:max-of-four-table]
print("seed   wrong of 16,777,216    accuracy   boxes   search     brute force, close calls")
for row in four:
    print(
        f"{row['seed']:4}{row['wrong']:22,}{1 - row['wrong'] / 64**4:12.6f}{row['boxes']:8,}"
        f"{row['search_seconds']:7.2f} s{row['force_seconds']:14.1f} s{row['close']:13}"
    )
mean = sum(1 - row["wrong"] / 64**4 for row in four) / len(four)
print(f"mean accuracy {mean:.4f}")
# --8<-- [end:max-of-four-table]
wrong_sequences = wrong_by_maximum(four)
