"""Put a hand-made fault into a copy of the code, run the tests that should see it, and say whether they did.

Run by `make mutants`. A fault that no test catches is a hole in the tests: the command fails and names it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mutant(NamedTuple):
    fault: str
    file: str  # below src/smoothap
    old: str
    new: str
    tests: str


LOSS, SMOOTH, EXACT = "tests/losses", "tests/ranking/test_smooth.py", "tests/ranking/test_exact.py"
EVALUATE, RANKS, COSINE = (f"tests/metrics/test_{name}.py" for name in ("evaluate", "certified_ranks", "cosine"))
INDICATORS, BLACKBOX = "tests/ranking/test_indicators.py", "tests/losses/test_blackbox_ap.py"
WRAPPED = "tests/methods/test_wrapped.py"
ROADMAP, RECALL = "tests/losses/test_roadmap.py", "tests/losses/test_recall_at_k.py"
SAMPLERS, LOOP = "tests/data/test_samplers.py", "tests/training/test_loop.py"
FROZEN = "tests/training/test_frozen.py"
CHECKPOINT, ELSEWHERE = "tests/training/test_checkpoint.py", "tests/devices/test_the_rest_elsewhere.py"
SEARCH, DISK, ENGINES = (f"tests/search/test_{name}.py" for name in ("album_search", "album_on_disk", "engines"))
COLLECTIONS, EXPORT = "tests/search/test_collections.py", "tests/search/test_collection_export.py"
SEGMENTS, PARTS, SOURCES = (f"tests/search/test_{name}.py" for name in ("segments", "parts", "sources"))
UPDATES, MISSING = (f"tests/search/test_{name}.py" for name in ("album_updates", "missing_photos"))
FOLDING, LAYERS = "tests/models/test_folding.py", "tests/models/test_fast_layers.py"
LARGE, HOLD = "tests/attacks/test_large_photos.py", "tests/attacks/test_slow_readers.py"
GATE, SERVER, VERSIONS = (f"tests/web/test_{name}.py" for name in ("gate", "server", "album_versions"))
LOSSES_ELSEWHERE = "tests/devices/test_losses_elsewhere.py"
MUTANTS = [
    Mutant("j != i dropped among positives", "ranking/block.py", "among.diagonal(offset=here.start, dim1=1, dim2=2).fill_(OUTSIDE)", "pass", LOSS),
    Mutant("D flipped", "ranking/block.py", "above = scores[rows, None, :] - positive", "above = positive - scores[rows, None, :]", LOSS),
    Mutant("1 + forgotten", "ranking/block.py", "among_positives = 1 + among  #", "among_positives = among  #", LOSS),
    Mutant("pull of positives lost", "ranking/block.py", "push[:, here] * above_slope.sum(2) + pull[:, here] * among_slope.sum(2)", "push[:, here] * above_slope.sum(2)", LOSS),
    Mutant("push has the wrong sign", "ranking/block.py", "            gradient[rows] += torch.bmm", "            gradient[rows] -= torch.bmm", LOSS),
    Mutant("query is its own positive", "losses/_retrieval_sets.py", "valid &= columns != own", "pass", LOSS),
    Mutant("query is its own negative", "losses/_retrieval_sets.py", "scores.scatter_(1, columns, OUTSIDE)", "scores.scatter_(1, columns, torch.where(valid & (columns == self.own[queries, None] if self.own is not None else valid), 1.0, OUTSIDE))", LOSS),
    Mutant("positives also counted as negatives", "losses/_retrieval_sets.py", "scores.scatter_(1, columns, OUTSIDE)", "pass", LOSS),
    Mutant("own of another label stays a negative", "losses/_retrieval_sets.py", "torch.where(own >= 0, OUTSIDE, scores.gather(1, here))", "scores.gather(1, here)", LOSS),
    Mutant("gradient of the reference side lost", "losses/_streaming.py", "item_gradient.addmm_(scores.T, rows)", "pass", LOSS),
    Mutant("a tensor of inference mode is used again", "losses/_streaming.py", "items.T, beta=0, alpha=self.block.scale)", "items.T, beta=0, alpha=self.block.scale, out=_blocks.__dict__.setdefault(len(items), rows.new_empty(len(rows), len(items))))", "tests/losses/test_smooth_ap.py -k inference_mode"),
    Mutant("device: a batch's own columns stay on the CPU", "losses/_retrieval_sets.py", "torch.arange(len(labels), device=labels.device)", "torch.arange(len(labels))", LOSSES_ELSEWHERE + " -k ours"),
    Mutant("device: edges of listed pairs stay on the CPU", "losses/_retrieval_sets.py", "torch.arange(queries + 1, device=pairs.device)", "torch.arange(queries + 1)", LOSSES_ELSEWHERE + " -k ours"),
    Mutant("device: a tile is counted beside its device", "metrics/_counters.py", "torch.arange(left, left + tile.shape[1], device=tile.device)", "torch.arange(left, left + tile.shape[1])", ELSEWHERE + " -k evaluation"),
    Mutant("device: counts do not come back to the CPU", "metrics/_counters.py", "table = histogram.cpu().numpy()", "table = histogram.numpy()", ELSEWHERE + " -k evaluation"),
    Mutant("device: weights do not come back to the CPU", "search/_identity.py", "value.detach().cpu().contiguous()", "value.detach().contiguous()", ELSEWHERE + " -k album"),
    Mutant("gradient not projected through the length", "losses/_normalising.py", "gradient.addcmul_(self.units, along, value=-1).div_(self.lengths)", "gradient.div_(self.lengths)", LOSS),
    Mutant("mean over all queries", "losses/_streaming.py", "loss = per_query.sum() / max(1, with_positive)", "loss = per_query.mean()", LOSS),
    Mutant("upstream gradient ignored", "losses/_streaming.py", "gradient * upstream for gradient", "gradient for gradient", "tests/losses/test_smooth_ap.py"),
    Mutant("a gradient penalty is nothing", "losses/_streaming.py", "first_order(gradient, upstream, *ctx.origins) for gradient in gradients", "gradient for gradient in gradients", "tests/losses/test_every_loss.py -k penalty"),
    Mutant("a gradient penalty is nothing in a graph", "losses/_blocks.py", "first_order(gradient, *origins) if is_wanted", "gradient if is_wanted", "tests/losses/test_torch_compile.py -k penalty"),
    Mutant("a gradient penalty is nothing but where the upstream gradient has a graph", "ranking/smooth.py", "first_order(result, upstream, origin)", "first_order(result, upstream)", SMOOTH),
    Mutant("float16 gradients rounded before the loss scale", "losses/_streaming.py", 'rows.gradient_back(gradient, embeddings, "embeddings", weights)', 'rows.gradient_back(gradient, embeddings, "embeddings", weights).to(embeddings.dtype)', "tests/losses/test_inputs.py -k scaler"),
    Mutant("an infinite gradient of short rows", "losses/_normalising.py", "    if bool(beyond.any()):", "    if False:", "tests/losses/test_inputs.py -k short"),
    Mutant("an infinite gradient of short rows of float32", "losses/_normalising.py", "if torch.finfo(matrix.dtype).max < 1e30 or not bool(self.ordinary):", "if torch.finfo(matrix.dtype).max < 1e30:", "tests/losses/test_inputs.py -k short"),
    Mutant("a loss scaler's infinity is refused", "losses/_normalising.py", "limits.max * max(1.0, float(upstream.abs().max()))", "limits.max", "tests/losses/test_inputs.py -k scaler"),
    Mutant("a temperature too small for float32", "ranking/indicators.py", "if not _LEAST_TEMPERATURE <= value", "if not 0 < value", "tests/losses/test_inputs.py -k temperature"),
    Mutant("rows beyond the root of float64 are infinite", "losses/_normalising.py", "relative = matrix / largest", "relative = matrix / 1.0", "tests/losses/test_inputs.py -k float64"),
    Mutant("a retrieval set of another precision", "losses/inputs.py", "return dtype if self.ref_emb is None else torch.promote_types(dtype, self.ref_emb.dtype)", "return dtype", "tests/losses/test_every_loss.py -k another_precision"),
    Mutant("listed pairs rounded to whole numbers", "losses/inputs.py", '_check_labels(indices, f"indices_tuple[{place}]", len(partner), "its other side")', "pass", "tests/losses/test_inputs.py -k do_not_fit"),
    Mutant("smoothed: scores of another shape", "ranking/smooth.py", "    check_shapes(scores, relevant)\n", "", SMOOTH),
    Mutant("smoothed: finite scores made infinite", "ranking/smooth.py", "if bool((negatives.isinf() & matrix.isfinite()).any()):", "if False:", SMOOTH),
    Mutant("compile: one forward for all losses", "losses/_retrieval_loss.py", 'if "forward" not in vars(cls):', "if False:", "tests/losses/test_torch_compile.py"),
    Mutant("tau left out of the gradient", "losses/_blocks.py", "pull = None if weights is None else -weights / self.tau", "pull = None if weights is None else -weights", LOSS),
    Mutant("autocast reaches the scores", "numerics/precision.py", "if torch.is_autocast_enabled(device_type):", "if False:", "tests/losses/test_precision.py"),
    Mutant("zero rows divided by a small number", "losses/_normalising.py", "if not bool((largest > 0).all()):", "if False:", "tests/losses/test_inputs.py"),
    Mutant("kernel: only half of the mirrored pairs", "losses/_kernels.py", "_add_each_slope(here, factors[k, left:right], weights[k, left:right], slope)", "pass", LOSS),
    Mutant("kernel: columns of the same class counted", "losses/_kernels.py", "start = max(first[query] + size[query] - corner[1], 0)\n        if start", "start = max(query + 1 - corner[1], 0)\n        if start", LOSS),
    Mutant("kernel: slot of the mirrored positive off by one", "losses/_kernels.py", "return slot if include_query or item < query else slot - 1", "return slot", LOSS),
    Mutant("kernel: exponential cut too early", "ranking/kernels.py", "x = min(max(x, np.float32(-87.0)), np.float32(87.0))", "x = min(max(x, np.float32(-3.0)), np.float32(3.0))", LOSS),
    Mutant("rival: slopes of the first slots for all", "ranking/block.py", "kept if at_once else compare(rows, here, True)", "kept if at_once else compare(rows, parts[0], True)", INDICATORS),
    Mutant("rival: linear slope everywhere", "ranking/indicators.py", "(value > 0).to(value.dtype)", "torch.ones_like(value)", INDICATORS),
    Mutant("rival: Proxy NCA with its own proxy in the denominator", "methods/_proxy_nca.py", "to_others = distances.masked_fill(is_own, torch.inf)", "to_others = distances", WRAPPED),
    Mutant("rival: any negative passes for semi-hard", "methods/_semi_hard.py", "_drawn(negative, cosines > farthest)", "_drawn(negative, negative)", WRAPPED),
    Mutant("rival: any positive passes for semi-hard", "methods/_semi_hard.py", "_drawn(positive, cosines < nearest)", "_drawn(positive, positive)", WRAPPED),
    Mutant("rival: an anchor is its own positive in a memory", "methods/_semi_hard.py", "same if own is None else same & (", "same if own is not None else same & (", WRAPPED),
    Mutant("rival: triplets on plain distances", "methods/_wrapped.py", "distance=distances.LpDistance(power=2), reducer", "distance=distances.LpDistance(), reducer", WRAPPED),
    Mutant("rival: the memory takes the place of the batch", "methods/_cross_batch_memory.py", "return value + self.weight * self._of_pairs", "return self.weight * self._of_pairs", WRAPPED),
    Mutant("rival: the memory learns", "methods/_cross_batch_memory.py", 'as_floats(ref_emb, "ref_emb").detach()', 'as_floats(ref_emb, "ref_emb")', WRAPPED),
    Mutant("rival: slices never learn together while batches are of one cluster", "methods/_divide_and_conquer.py", "int(self.step) < self.sliced_steps", "int(self.step) < self.divided_steps", "tests/methods/test_divide_and_conquer.py"),
    Mutant("rival: weight decay of what a loss learns", "training/_loss_parameters.py", '"weight_decay": 0.0}', '"weight_decay": settings.weight_decay}', "tests/training/test_loss_parameters.py"),
    Mutant("rival: a boundary learns at the rate of proxies", "training/_loss_parameters.py", "own_rates.get(parameter, shared)", "shared", "tests/training/test_loss_parameters.py"),
    Mutant("rival: the memory has no warm-up", "training/loop.py", "queue is not None and state.step > settings.queue_after", "queue is not None", LOOP + " -k queue"),
    Mutant("rival: a recipe of rivals trains all although one is named", "experiments/_losses.py", "if settings.loss == loss}", "if True}", "tests/recipes/test_recipes.py -k trained_alone"),
    Mutant("rival: FastAP's histogram counts the query", "analysis/_rival_errors.py", "~relevant & ~left_out", "~relevant", "tests/analysis/test_tightness.py -k errors_are"),
    Mutant("rival: Blackbox AP's margin on the wrong side in its error", "analysis/_rival_errors.py", "scores - margin * (", "scores + margin * (", "tests/analysis/test_tightness.py -k errors_are"),
    Mutant("rival: Blackbox AP with the margin on the wrong side", "losses/_blackbox.py", "negatives = scores + self.margin / 2", "negatives = scores - self.margin", BLACKBOX),
    Mutant("rival: Blackbox AP forgets who was overtaken", "losses/_blackbox.py", "torch.ge(after[:, None], negatives, out=flags)", "torch.ge(before[:, None], negatives, out=flags)", BLACKBOX),
    Mutant("rival: Blackbox recall with one logarithm in its slope", "losses/blackbox_recall.py", "pull * valid / ((1 + inner) * (1 + above))", "pull * valid / (1 + above)", BLACKBOX),
    Mutant("rival: Blackbox AP does not divide ranks by their number", "losses/_blackbox.py", "weights[:, None] * size  #", "weights[:, None]  #", BLACKBOX),
    Mutant("rival: SupAP goes flat far above", "losses/sup_ap.py", "slope.masked_fill_(beyond, self.rho)", "slope", ROADMAP),
    Mutant("rival: SupAP with soft ranks among positives", "losses/sup_ap.py", "IndicatorBlock(_TRUE_RANK, ", "IndicatorBlock(SupIndicator(tau, rho, delta, offset, step), ", ROADMAP),
    Mutant("rival: calibration over all pairs", "losses/calibration.py", "too_high / high.detach().clamp(min=1)", "too_high / values.numel()", ROADMAP),
    Mutant("rival: Recall@k finds more than k", "losses/recall_at_k.py", "hits.clamp(max=k)", "hits", RECALL),
    Mutant("rival: Recall@k learns beyond the cut", "losses/recall_at_k.py", " * (hits < k)", "", RECALL),
    Mutant("smoothed: outside items taken in", "ranking/smooth.py", "block.masked_fill_(mask[rows], OUTSIDE)", "pass", SMOOTH),
    Mutant("exact AP: strict ties", "ranking/exact.py", "torch.searchsorted(ascending, matrix)  #", "torch.searchsorted(ascending, matrix, right=True) - 1 + 1  #", EXACT),
    Mutant("exact AP: divided by all items", "ranking/exact.py", "precision.sum(1) / mask.sum(1)", "precision.sum(1) / items", EXACT),
    Mutant("evaluate: query not removed", "metrics/_counters.py", "(sets.one_set & (query == item))", "False", EVALUATE),
    Mutant("evaluate: query not removed by the kernel", "metrics/_kernels.py", "itself = one_set and item == query", "itself = False", EVALUATE),
    Mutant("evaluate: strict ties", "metrics/_kernels.py", "np.int32(scratch.settled[j] >= exact[i])", "np.int32(scratch.settled[j] > exact[i])", RANKS),
    Mutant("evaluate: strict ties among many", "metrics/_kernels.py", 'np.searchsorted(exact, scratch.settled[j], side="right")', "np.searchsorted(exact, scratch.settled[j])", RANKS),
    Mutant("evaluate: strict ties without numba", "metrics/_counters.py", 'np.searchsorted(thresholds, answers[begin:end], side="right")', "np.searchsorted(thresholds, answers[begin:end])", RANKS),
    Mutant("evaluate: half the bound", "metrics/cosine.py", "return share / (1 - share) + 4", "return share / (1 - share) / 2 + 4", COSINE),
    Mutant("evaluate: no bound at all", "metrics/_counters.py", "bound = error_bound(self.sets.items.matrix.shape[1], dtype)", "bound = 0.0", RANKS),
    Mutant("evaluate: undecided scores count as above", "metrics/_kernels.py", "number = perhaps_before - before + perhaps_behind - behind", "counts[start + i] += perhaps_before - before + perhaps_behind - behind\n            number = 0", RANKS),
    Mutant("evaluate: a score of another row remembered", "metrics/_kernels.py", "np.int64(row) << 40 | group[column]", "group[column]", RANKS),
    Mutant("evaluate: rows of one mark taken for equal", "metrics/_rows.py", "group[place] = others.setdefault(row, len(first) + place)", "pass", RANKS),
    Mutant("evaluate: products left as the user set them", "numerics/precision.py", 'if older == "highest" and not set(chosen) & {"tf32", "bf16"}:', "if True:", "tests/losses/test_precision.py"),
    Mutant("score: added from the left", "metrics/_cosine_kernels.py", "front[i] += back[i]", "front[0] += back[i]", COSINE),
    Mutant("score: torch's root", "metrics/cosine.py", "return np.sqrt(squares), ", "return torch.from_numpy(squares).sqrt().numpy(), ", "tests/metrics/test_certified_ranks.py -k constant"),
    Mutant("score: float64 rows not scaled", "metrics/cosine.py", "return tensor * ((1023 - exponent) << 52).view(torch.float64)", "return tensor", RANKS),
    Mutant("confusions: the product decides", "metrics/cosine.py", "undecided = np.flatnonzero(proposed >= lower[places])", "undecided = np.empty(0, np.int64)", "tests/metrics/test_certified_ranks.py -k classes_take"),
    Mutant("evaluate: strict ties in columns", "metrics/_kernels.py", "np.int32(scratch.settled[j] >= exact)", "np.int32(scratch.settled[j] > exact)", RANKS),
    Mutant("evaluate: scores near the lowest threshold dropped", "metrics/_kernels.py", "perhaps, zero = lowest - width,", "perhaps, zero = lowest,", RANKS),
    Mutant("evaluate: labels of two kinds merged in float64", "metrics/evaluate.py", 'if np.result_type(names, item_names).kind == "f":', "if False:", EVALUATE + " -k kept_apart"),
    Mutant("evaluate: None is a class", "metrics/evaluate.py", "if not isinstance(label, kind):", "if False:", EVALUATE + " -k do_not_fit"),
    Mutant("evaluate: numpy makes a string of NaN", "metrics/evaluate.py", 'if values.dtype.kind in "fUS" and', 'if values.dtype.kind in "" and', EVALUATE + " -k do_not_fit"),
    Mutant("evaluate: mirrored tiles forgotten", "metrics/_counting.py", "counter.count_columns(tile, top, left)", "pass", EVALUATE),
    Mutant("evaluate: ignored items counted", "metrics/_counters.py", "out = sets.left_out[item] |", "out =", EVALUATE),
    Mutant("evaluate: first hit counts from 0", "metrics/evaluate.py", "= 1 + negatives[begins + size - 1]", "= negatives[begins + size - 1]", EVALUATE),
    Mutant("evaluate: equal positives not counted", "metrics/evaluate.py", "new_score[1:] = scores[1:] != scores[:-1]", "new_score[1:] = True", EVALUATE),
    Mutant("evaluate: lengths not divided out", "metrics/_cosine_kernels.py", "unit[i] = np.float64(given[i]) / norm", "unit[i] = np.float64(given[i])", EVALUATE),
    Mutant("depthwise: dilation forgotten", "models/_depthwise_kernels.py", "tap_x * dilation_x", "tap_x", LAYERS),
    Mutant("depthwise: gradient of the bias lost", "models/_depthwise_kernels.py", "bias[channel] += gradient[channel]", "pass", LAYERS),
    Mutant("depthwise: sums depend on the threads", "models/fast_layers.py", "chunks = min(_CHUNKS, len(pixels))", "chunks = min(torch.get_num_threads(), len(pixels))", LAYERS),
    Mutant("relu6: a slope above six", "models/fast_layers.py", "nn.ReLU6: (0.0, 6.0)}", "nn.ReLU6: (0.0, 7.0)}", LAYERS),
    Mutant("fused: relu6 is relu", "models/fast_layers.py", 'nn.ReLU6: ("hardtanh", [0.0, 6.0])', 'nn.ReLU6: ("relu", [])', LAYERS + " -k fused"),
    Mutant("1 x 1: a stride is forgotten", "models/fast_layers.py", "weight.shape[2:] == (1, 1) and geometry == Geometry() and", "weight.shape[2:] == (1, 1) and", LAYERS + " -k which_gradient"),
    Mutant("convolution: gradient of the bias lost", "models/fast_layers.py", "rows.sum(0) if of_bias else None", "rows.sum(0) * 0 if of_bias else None", LAYERS + " -k slopes"),
    Mutant("gradients change their layout on the way", "models/fast_layers.py", "        result = _result(images, weight, bias, geometry, activation)\n", "        result = _result(images, weight, bias, geometry, activation).contiguous()\n", LAYERS + " -k copies_no_map"),
    Mutant("a small search loads pandas", "search/photos.py", "places = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])", "places = pa.array(numbers)", "tests/search/test_album_search.py -k do_without"),
    Mutant("a small search loads numba", "metrics/cosine.py", "_WORTH_COMPILING = 1 << 24", "_WORTH_COMPILING = 1 << 20", "tests/search/test_album_search.py -k do_without"),
    Mutant("same padding on the wrong side", "models/fast_layers.py", "borders += [short // 2, short - short // 2]", "borders += [short - short // 2, short // 2]", LAYERS),
    Mutant("before: seen in other views than after", "experiments/fine_tuning.py", "model.transform = trained.transform", "pass", "tests/experiments/test_fine_tuning.py"),
    Mutant("copies: rows of one mark taken for equal", "metrics/copies.py", "groups[here[equal]] = items.group[equals[equal]]", "groups[here] = items.group[equals]", "tests/metrics/test_copies.py"),
    Mutant("copies: ignored pairs counted", "metrics/copies.py", "    if ignored is None:\n", "    if True:\n", "tests/metrics/test_copies.py"),
    Mutant("copies: of images not counted", "training/evaluation.py", "replace(report, copies=queries_with_copies(digests))", "replace(report, copies=0)", "tests/training/test_evaluation.py"),
    Mutant("copies: a query in the gallery is its own copy", "training/evaluation.py", "queries_with_copies(digests[queries], digests[gallery], itself)", "queries_with_copies(digests[queries], digests[gallery])", "tests/training/test_evaluation.py"),
    Mutant("copies: train does not say so", "cli/_printing.py", "[table, after.about_copies()]", "[table]", "tests/cli/test_train_and_evaluate.py"),
    Mutant("copies: compare does not say so", "compare/output.py", "as_markdown(rows), warnings[protocol])", "as_markdown(rows))", "tests/compare/test_compare.py"),
    Mutant("compare: every method has seeds of its own", "compare/runner.py", "values, split, self._plan.seed(split, number), start=start)", "values, split, self._plan.seed(split, number) + len(method.name), start=start)", "tests/compare/test_protocol.py"),
    Mutant("compare: every method has validation classes of its own", "compare/_run.py", "benchmark.train_and_validation(run.seed)", "benchmark.train_and_validation(run.seed + len(run.method))", "tests/compare/test_run.py -k share"),
    Mutant("compare: pairs of any seeds", "compare/_intervals.py", "run.minus(partner[run.split, run.seed])", "run.minus(others[0])", "tests/compare/test_run_intervals.py -k pair"),
    Mutant("compare: a low edge is not noticed", "compare/_search.py", "place < low + _EDGE * width and", "place < low and", "tests/compare/test_search.py"),
    Mutant("compare: a high edge is not noticed", "compare/_search.py", "place > high - _EDGE * width and", "place > high and", "tests/compare/test_search.py"),
    Mutant("compare: a limit counts as an edge", "compare/_search.py", " and max(each.high for each in tried) < parameter.most", "", "tests/compare/test_search.py"),
    Mutant("compare: a range at an edge stays", "compare/_search.py", "each.around(best.values[each.parameter.name])", "each", "tests/compare/test_search.py"),
    Mutant("compare: only one method gets another round", "compare/runner.py", "for search in searches for values in search.draw", "for search in (searches[:1] if number else searches) for values in search.draw", "tests/compare/test_protocol.py"),
    Mutant("compare: an edge gives no other round", "compare/runner.py", "if number and not any(search.edges() for search in searches):", "if number:", "tests/compare/test_protocol.py"),
    Mutant("compare: a trial is judged before its end", "compare/_run.py", "if tuned.steps < plan.steps:", "if False:", "tests/compare/test_compare.py -k stopped"),
    Mutant("compare: a failed fold is not missed", "compare/runner.py", "if len(results) < len(of_folds):", "if not results:", "tests/compare/test_protocol.py -k fold"),
    Mutant("compare: a later stage starts from another loss", "compare/runner.py", "start = self._final_run(split, number, method.start).folder / MODEL", "start = None", "tests/compare/test_protocol.py"),
    Mutant("compare: two stages without a control", "methods/methods.py", "dict.fromkeys([*names, *controls])", "dict.fromkeys(names)", "tests/methods/test_methods.py"),
    Mutant("compare: the spread between seeds is left out", "compare/_intervals.py", "max(between_classes + between_repeats - in_both, between_classes, between_repeats)", "between_classes", "tests/compare/test_run_intervals.py"),
    Mutant("compare: the spread between classes is left out", "compare/_intervals.py", "max(between_classes + between_repeats - in_both, between_classes, between_repeats)", "between_repeats", "tests/compare/test_run_intervals.py"),
    Mutant("compare: few seeds are taken for many", "compare/_intervals.py", "stdtrit(freedom, (1 + LEVEL) / 2)", "stdtrit(1e9, (1 + LEVEL) / 2)", "tests/compare/test_run_intervals.py"),
    Mutant("compare: many pairs are judged like one", "compare/_intervals.py", "(1 - LEVEL) / (len(pairs) - done)", "(1 - LEVEL)", "tests/compare/test_run_intervals.py"),
    Mutant("compare: found numbers do not reach the loss", "compare/_run.py", "method.parts(setup, run.options())", "method.parts(setup, {})", "tests/compare/test_run.py"),
    Mutant("evaluate: a gallery beside a model is not looked at", "cli/evaluate.py", 'else {"--gallery": gallery}', "else {}", "tests/cli/test_train_and_evaluate.py"),
    Mutant("cost: a batch of no whole classes", "analysis/cost.py", "if batch % measured_losses.PER_CLASS or", "if", "tests/analysis/test_cost.py"),
    Mutant("cost: the authors' positives cut out of the cube", "analysis/_measured_losses.py", "rank_among_positives[place] / rank[here, here]", "rank_among_positives[place] / rank[here, here] + 0 * (units @ units.T)[:, None, :].repeat(1, batch, 1)[here, here, here].sum(2)", "tests/analysis/test_cost.py"),
    Mutant("before: any fault makes a new layer", "experiments/before_after.py", "except NoFeatures as blank:", "except ValueError as blank:", "tests/experiments/test_fine_tuning.py"),
    Mutant("search: copies in any order", "search/engines.py", "scores = self._cosines.of(vector)\n", "scores = self._cosines.vectors @ vector\n", "tests/search/test_ties.py"),
    Mutant("search: pairs by the product alone", "search/duplicates.py", "likely = block >= score - bound", "likely = block >= score", "tests/search/test_ties.py"),
    Mutant("evaluate: processes count the same tiles", "distributed.py", "return piece % self.number == self.rank", "return True", "tests/metrics/test_invariance.py"),
    Mutant("sampler: ranks take the same images", "data/samplers.py", "range(rank * batch_size // ranks, (rank + 1) * batch_size // ranks)", "range(batch_size // ranks)", SAMPLERS),
    Mutant("sampler: every epoch is the first", "data/samplers.py", "self._stream.batches(epoch * self._steps, (epoch + 1) * self._steps)", "self._stream.batches(0, self._steps)", SAMPLERS),
    Mutant("sampler: a resumed epoch starts over", "data/samplers.py", "for step in range(first_step, len(rows)):", "for step in range(len(rows)):", SAMPLERS),
    Mutant("sampler: views of a batch share their seed", "data/samplers.py", "(self.seed, epoch, start + place)", "(self.seed, epoch, start)", SAMPLERS),
    Mutant("sampler: both halves from one group", "data/samplers.py", "combinations(range(len(names)), 2)", "[(g, g) for g in range(len(names)) for _ in range(len(names))][: len(names) * (len(names) - 1) // 2]", SAMPLERS),
    Mutant("data: a part of a set forgets the pixel hint", "data/image_set.py", "read(int(rows[row]), shorter_side)", "read(int(rows[row]))", "tests/data/test_folder.py"),
    Mutant("data: a stand-in from another class first", "data/dataset.py", "np.flatnonzero(classes_further == 0)", "np.flatnonzero(classes_further == 1)", "tests/data/test_dataset.py"),
    Mutant("frozen: other weights take the same features", "training/frozen.py", '"weights": weights.hexdigest(),', '"weights": "",', FROZEN + " -k of_their_own"),
    Mutant("frozen: a changed image keeps its features", "training/frozen.py", '"files": _stamps(dataset.images),', '"files": "",', FROZEN + " -k of_their_own"),
    Mutant("frozen: a damaged file is believed", "data/stored_features.py", 'described["sha256"] != digest.hexdigest() or ', "", FROZEN + " -k damaged"),
    Mutant("frozen: always the test view", "data/stored_features.py", "np.where(drawn, views, 0)", "0 * views", FROZEN + " -k draw"),
    Mutant("frozen: a model without its backbone is saved", "models/embedder.py", "{**self.backbone_elsewhere, **self.state_dict()}", "self.state_dict()", FROZEN + " -k whole_model"),
    Mutant("frozen: the disk is found full after the work", "training/frozen.py", "if needed > free:", "if False:", FROZEN + " -k full_disk"),
    Mutant("loop: the last epoch stays, not the best", "training/loop.py", "if state.step == 0 or report.mean_average_precision > max(state.best, to_beat):", "if True:", LOOP),
    Mutant("loop: an epoch worse than the network before is kept", "training/loop.py", "report.mean_average_precision > max(state.best, to_beat)", "report.mean_average_precision > state.best", LOOP + " -k beat"),
    Mutant("start: a trained layer is thrown away", "training/loop.py", 'settings.embedding_start != "random" and model.embedding_is_new', 'settings.embedding_start != "random"', "tests/training/test_embedding_start.py"),
    Mutant("start: looked at again after a cut", "training/loop.py", "    elif projects:\n", "    if projects:\n", "tests/training/test_embedding_start.py"),
    Mutant("start: scatter within classes ignored", "training/embedding_start.py", " if power > 0 else None", " if power < 0 else None", "tests/training/test_embedding_start.py"),
    Mutant("start: not centred", "training/embedding_start.py", "return weight, -weight @ mean", "return weight, 0 * (weight @ mean)", "tests/training/test_embedding_start.py"),
    Mutant("start: no scatter divides by zero", "training/embedding_start.py", "if spread <= 0:", "if spread < 0:", "tests/training/test_embedding_start.py"),
    Mutant("train: worse on the test in silence", "cli/_printing.py", "if after.mean_average_precision < before.mean_average_precision:", "if False:", "tests/cli/test_train_and_evaluate.py -k silence"),
    Mutant("train: nothing learnt ends as a success", "cli/train.py", "        sys.exit(options.NOT_IMPROVED)", "        pass", "tests/cli/test_train_and_evaluate.py -k improves_nothing"),
    Mutant("loop: clipping forgotten", "training/loop.py", "if settings.clip is not None:", "if False:", LOOP),
    Mutant("loop: the rate never falls", "training/loop.py", 'group["lr"] = rate * factor', 'group["lr"] = rate', LOOP),
    Mutant("loop: a loss that is not finite goes on", "training/loop.py", "if not np.isfinite(mean_loss):", "if False:", LOOP),
    Mutant("loop: dropout goes its own way after a cut", "training/loop.py", "torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0] >> 1))  # dropout", "pass", CHECKPOINT + " -k dropout"),
    Mutant("loop: the optimiser begins anew after a cut", "training/checkpoint.py", 'state.optimiser.load_state_dict({"state": slots, "param_groups": described["groups"]})', "pass", CHECKPOINT + " -k cut_off"),
    Mutant("loop: another split is taken up", "training/checkpoint.py", 'return before.get("files") == now["files"] and same_colours', "return same_colours", CHECKPOINT + " -k other_files"),
    Mutant("loop: other pictures are taken up", "training/checkpoint.py", 'return before.get("files") == now["files"] and same_colours', 'return before.get("files") == now["files"]', CHECKPOINT + " -k other_pictures"),
    Mutant("loop: two trainings in a folder", "training/loop.py", '    with locked(place, f"Another process is training in {folder}: wait until it is done, or choose another folder."):\n', "    with freed_memory_kept():\n", CHECKPOINT + " -k second_training"),
    Mutant("loop: the lock ends before the test", "experiments/fine_tuning.py", "    with alone_in(folder):\n        result", "    if folder:\n        result", "tests/experiments/test_fine_tuning.py -k alone"),
    Mutant("loop: the lock ends before the model is saved", "experiments/fine_tuning.py", "            with alone_in(Path(out) / training):\n", "            if out:\n", "tests/experiments/test_fine_tuning.py -k alone"),
    Mutant("loop: resumed with other threads", "training/checkpoint.py", "    torch.set_num_threads(wanted)\n", "", CHECKPOINT + " -k threads"),
    Mutant("loop: threads not kept", "training/checkpoint.py", '"threads": torch.get_num_threads(),', "", CHECKPOINT + " -k threads"),
    Mutant("loop: threads stay changed", "training/loop.py", "        finally:\n            torch.set_num_threads(threads)", "        finally:\n            pass", CHECKPOINT + " -k threads"),
    Mutant("loop: a killed worker is a traceback", "training/loop.py", "            lost_workers_explained(),\n", "", LOOP + " -k killed"),
    Mutant("loop: a full disk at the start is a traceback", "training/loop.py", "if isinstance(error, OSError) and not is_full(error):", "if isinstance(error, OSError):", LOOP + " -k full"),
    Mutant("evaluation: a killed worker is a traceback", "training/evaluation.py", "@lost_workers_explained()\n", "", "tests/training/test_evaluation.py -k killed"),
    Mutant("loop: what a kill left half written stays", "training/loop.py", "        sweep(place / MODEL)\n", "", CHECKPOINT + " -k half_written"),
    Mutant("device: labels stay on the CPU", "training/loop.py", "processes.gather(batch.labels.to(device))", "processes.gather(batch.labels)", ELSEWHERE + " -k is_the_training"),
    Mutant("device: the loss stays on the CPU", "training/loop.py", "    loss.to(device)\n", "", ELSEWHERE + " -k every_method"),
    Mutant("device: the queue begins on the CPU", "training/loop.py", "EmbeddingQueue(settings.queue, model.dimension, device)", "EmbeddingQueue(settings.queue, model.dimension)", ELSEWHERE + " -k is_the_training"),
    Mutant("device: a resumed queue lies on the CPU", "training/checkpoint.py", 'parts["queue"]["embeddings"].to(state.queue.embeddings.device)', 'parts["queue"]["embeddings"]', ELSEWHERE + " -k resumed"),
    Mutant("device: a checkpoint of tensors elsewhere", "training/checkpoint.py", "value.detach().cpu().contiguous()", "value.detach().contiguous()", ELSEWHERE + " -k is_the_training"),
    Mutant("device: a model saved from elsewhere", "models/folder.py", "value.detach().cpu().contiguous()", "value.detach().contiguous()", ELSEWHERE + " -k is_the_training"),
    Mutant("device: vectors are not brought to the CPU", "models/embedder.py", ".float().cpu().numpy()", ".float().numpy()", ELSEWHERE + " -k embeds"),
    Mutant("device: images are normalised on the CPU", "data/transforms.py", "values.float().to(images.device)", "values.float()", ELSEWHERE + " -k embeds"),
    Mutant("device: an export of a model elsewhere", "models/export.py", "copy.deepcopy(model).cpu().eval()", "copy.deepcopy(model).eval()", ELSEWHERE + " -k embeds"),
    Mutant("device: the loss is scaled in float64", "training/precision.py", "GradScaler if has_float64(device) else _ScalerWithoutFloat64", "GradScaler", ELSEWHERE + " -k 16_bits_elsewhere"),
    Mutant("device: gradients of float16 are not scaled back", "training/precision.py", "self._scale.reciprocal(), infinite", "self._scale / self._scale, infinite", ELSEWHERE + " -k taken_back"),
    Mutant("lock: a disk without locks is refused", "files.py", "except (ImportError, OSError):", "except ImportError:", "tests/test_files.py"),
    Mutant("lock: a child keeps it", "files.py", "fcntl.lockf(lock", "fcntl.flock(lock", "tests/test_files.py"),
    Mutant("lock: a second writer of this process", "files.py", "    while _locked.setdefault(here, this) is not this:", "    while False:", "tests/test_files.py"),
    Mutant("lock: a child of a writer is refused for ever", "files.py", "(os.getpid(), folder.resolve()), object()", "(0, folder.resolve()), object()", "tests/test_files.py"),
    Mutant("save: a full disk is a number", "files.py", "if isinstance(error, OSError) and is_full(error):", "if False:", "tests/test_files.py"),
    Mutant("loop: a checkpoint's bytes are believed", "training/checkpoint.py", 'if hashlib.sha256(content).hexdigest() != described["sha256"]:', "if False:", CHECKPOINT + " -k flipped"),
    Mutant("a description's bytes are believed", "sealed_json.py", "whole = without or self.text(values) == text", "whole = True", "tests/crash/test_flipped_bytes.py -k json"),
    Mutant("loop: the queue keeps the oldest", "training/_queue.py", "self.labels = torch.cat([self.labels, labels])[-self.size :]", "self.labels = torch.cat([self.labels, labels])[: self.size]", "tests/training/test_queue.py"),
    Mutant("search: worst photos first", "search/engines.py", "np.lexsort((rows, -scores[rows]))", "np.lexsort((rows, scores[rows]))", SEARCH),
    Mutant("search: the query finds itself", "search/album.py", "self._rows([*query_ids, *wrong])", "self._rows(wrong)", SEARCH),
    Mutant("search: wrong photos are found again", "search/album.py", "self._rows([*query_ids, *wrong])", "self._rows(query_ids)", SERVER + " -k marked_photos_stay"),
    Mutant("search: wrong photos pull", "search/refining.py", "moved = moved - WRONG * wrong", "moved = moved + WRONG * wrong", SEARCH),
    Mutant("search: pairs across tiles lost", "search/duplicates.py", "range(top, len(vectors), _TILE)", "range(top, top + 1)", SEARCH),
    Mutant("search: a short answer is believed", "search/engines.py", "return None if len(candidates) < enough", "return None if not len(candidates)", ENGINES + " -k believed"),
    Mutant("search: Milvus 2.3 is not understood", "search/_milvus.py", '_KEY = "id"', '_KEY = "row"', ENGINES + " -k calls_its_key"),
    Mutant("search: checksums not looked at", "search/_checksums.py", "if checksum(file) != wanted:", "if False:", "tests/crash/test_flipped_bytes.py -k album"),
    Mutant("search: ids given again", "search/_settling.py", "replace(description, segments=segments, next_segment=number)", "replace(description, next_id=int(table['id'].to_pylist()[-1]) + 1, segments=segments, next_segment=number)", UPDATES),
    Mutant("segments: a row is taken from the file before", "search/vectors.py", "places[here] - self._starts[piece]", "places[here] - self._starts[piece] - 1", SEGMENTS),
    Mutant("segments: rows in the order of files, not of ids", "search/vectors.py", "places = rows if self._places is None else self._places[rows]", "places = rows", SEGMENTS),
    Mutant("segments: a float16 row is called float32", "search/vectors.py", "return rows if rows.dtype == self.dtype else None", "return rows", SEGMENTS),
    Mutant("segments: pairs of float16 by their raw products", "metrics/cosine.py", "return unit_rows(given_rows(self.vectors[rows]), self.norms[rows], torch.float32).numpy()", "return np.asarray(self.vectors[rows])", SEGMENTS + " -k float16_are"),
    Mutant("segments: one that lost rows keeps its vectors", "search/_settling.py", "whole = alone is not None and len(rows) == alone.rows and", "whole = alone is not None and", SEGMENTS),
    Mutant("segments: all are written anew", "search/_settling.py", "if len(group) == 1 and fresh[group[0]] and not renewed:", "if False:", SEGMENTS),
    Mutant("segments: a foreign table is mapped", "search/_faiss_cache.py", "if status.st_uid != os.getuid() or others_may_write", "if status.st_uid != os.getuid()", SEGMENTS + " -k foreign"),
    Mutant("segments: a damaged table is mapped", "search/_mapped_table.py", "        check(file, file.with_suffix", "        str(file.with_suffix", SEGMENTS + " -k foreign"),
    Mutant("parts: a photo falls to no part", "search/parts.py", "return self.place(path) == self.number - 1", "return self.place(path) == self.number", PARTS + " -k one_part"),
    Mutant("parts: those of a closed folder are gone", "search/parts.py", "gone = self.walk.missing(known)", "gone = self._mine.missing(known)", PARTS + " -k cannot_be_read"),
    Mutant("parts: a changed photo gets another id", "search/parts.py", "ids.append(next_id if row is None else int(photos.ids[row]))", "ids.append(next_id + len(ids))", PARTS + " -k changed_parts"),
    Mutant("parts: what is gone before the end is counted in", "search/parts.py", "        remove_rows(staging, stale)\n", "", PARTS + " -k goes_on"),
    Mutant("parts: refusals of other parts are forgotten", "search/parts.py", "{**others, **read_refusals(staging.folder)}", "read_refusals(staging.folder)", PARTS + " -k album_of_one_run"),
    Mutant("parts: processes outlive the one that started them", "experiments/_part_process.py", "    if not idle.is_set():\n        os._exit(1)", "    if False:\n        os._exit(1)", PARTS + " -k kill_9"),
    Mutant("join: one content is there twice", "search/joining.py", "            again.append(identity)\n", "            pass\n", PARTS + " -k joined_once"),
    Mutant("join: thumbnails of another photo", "search/_settling.py", "renamed = {pack: number + place for place, pack in enumerate(packs)}", "renamed = {pack: number for place, pack in enumerate(packs)}", PARTS + " -k share_their_files"),
    Mutant("ivf: building begins anew", "search/_ivf.py", "read_unfinished(checksum, form, width) or _trained(vectors, cells)", "_trained(vectors, cells)", ENGINES + " -k taken_up"),
    Mutant("ivf: too few candidates", "search/_ivf.py", "min(max(_SPARE * k, _LEAST_CANDIDATES), self.rows)", "min(k, self.rows)", ENGINES + " -k brute_force"),
    Mutant("sources: photos from the start of the shard", "search/sources.py", "            stream.seek(file.place)\n", "", SOURCES + " -k taken_up"),
    Mutant("sources: a name leads out of its shard", "search/sources.py", "if re.search(OUTSIDE, path):", "if False:", SOURCES + " -k lead_out"),
    Mutant("sources: rows of one group only", "search/sources.py", "key = name, int(group)", "key = name, 0", SOURCES + " -k parquet_files"),
    Mutant("segments: the graph of another order", "search/_segments.py", "(b\"\" if order is None else checksum(order.tobytes()).encode())", "b\"\"", SEGMENTS + " -k another_order"),
    Mutant("search: changed files not seen", "search/updating.py", "(self._sizes[row], self._times[row]) == (file.bytes, file.modified)", "self._sizes[row] == file.bytes", UPDATES),
    Mutant("search: another model is let in", "search/_identity.py", "if (given := identity_of(model)) != self.identity:", "if False:", DISK),
    Mutant("search: unreadable photos not listed", "search/updating.py", "write_refusals(self.storage.folder, {**others, **self._refusals})", "pass", "tests/search/test_unreadable_photos.py"),
    Mutant("search: photos in a closed folder are gone", "search/walking.py", "return path in self.unreadable or any(folder in self.unreadable for folder in folders)", "return path in self.unreadable", MISSING + " -k loses_no_photo"),
    Mutant("search: photos that can be listed only are gone", "search/walking.py", "return path in self.unreadable or any", "return any", MISSING + " -k loses_no_photo"),
    Mutant("search: a closed photo folder is an empty one", "search/walking.py", "            if not folder:\n", "            if False:\n", MISSING + " -k is_an_error"),
    Mutant("search: an unmounted disk empties the album", "search/updating.py", "len(gone) == known or", "False or", MISSING + " -k mounted"),
    Mutant("search: many missing photos go without a word", "search/updating.py", "len(gone) > max(_FEW, _SHARE * known)", "False", MISSING + " -k missing"),
    Mutant("search: a link takes the photos of its folder", "search/walking.py", "(links if entry.is_symlink() else folders).append(path)", "folders.append(path)", MISSING + " -k new_link"),
    Mutant("search: the model's new place is forgotten", "search/updating.py", ", source=self.source)", ")", DISK + " -k remembered"),
    Mutant("search: a date beyond 2262 stops the index", "search/walking.py", "max(-_LATEST, min(status.st_mtime_ns, _LATEST))", "status.st_mtime_ns", UPDATES + " -k date"),
    Mutant("search: a folder that is not UTF-8 stops the index", "search/updating.py", 'label.encode(errors="backslashreplace").decode()', "label", UPDATES + " -k utf8"),
    Mutant("search: one strange file stops the index", "search/preparing.py", "except Exception as error:", "except (OSError, ValueError, MemoryError) as error:", "tests/search/test_unreadable_photos.py -k one_bad_file"),
    Mutant("search: what can pass is not tried again", "search/preparing.py", "may_pass=isinstance(error, (OSError, MemoryError))", "may_pass=False", "tests/search/test_unreadable_photos.py -k can_pass"),
    Mutant("search: what cannot pass is tried again", "search/updating.py", "refusal is not None and refusal ==", "False and refusal ==", "tests/search/test_unreadable_photos.py -k twice"),
    Mutant("search: labels from the photo folder", "experiments/_labels.py", "_below(photos, file.parent / folder)", "_below(photos, photos / folder)", "tests/cli/test_album_commands.py -k table_of_labels"),
    Mutant("search: labels that match nothing", "experiments/_labels.py", "    if not by_path:\n", "    if False:\n", "tests/cli/test_album_commands.py -k table_of_labels"),
    Mutant("reading: a HEIC photo without its decoder is refused for good", "search/preparing.py", "(MemoryError, ImportError)", "MemoryError", "tests/search/test_dates_and_cameras.py -k decoder"),
    Mutant("reading: a date of zeros hides the next best", "data/_exif.py", "with suppress(ValueError):", "with suppress(ZeroDivisionError):", "tests/data/test_phone_photos.py"),
    Mutant("search: other files are not listed", "search/updating.py", "{**others, **self._refusals}", "self._refusals", "tests/search/test_unreadable_photos.py"),
    Mutant("search: an older album is not filled in", "search/updating.py", "        self._read_heads(unchanged)\n", "", "tests/search/test_dates_and_cameras.py"),
    Mutant("search: a negative expansion", "search/refining.py", "if expand < 0:", "if False:", SEARCH + " -k wrong_questions"),
    Mutant("filter: first ranked, then filtered", "search/engines.py", "candidates = named if passing is None else named[passing[named]]", "candidates = named", "tests/search/test_filtering.py"),
    Mutant("filter: a folder is the start of a name", "search/filtering.py", '"/".join(parts)) + b"/")', '"/".join(parts)))', "tests/search/test_filtering.py"),
    Mutant("filter: photos without a date are from 1970", "search/filtering.py", "return known & (seconds >= first)", "return (seconds >= first)", "tests/search/test_filtering.py"),
    Mutant("filter: the last day ends when it begins", "search/filtering.py", "datetime.combine(until, time.max)", "datetime.combine(until, time.min)", "tests/search/test_filtering.py"),
    Mutant("filter: what was marked wrong is in the collection", "search/filtering.py", "for identity in collection.right}", "for identity in (*collection.right, *collection.wrong)}", "tests/search/test_filtering.py"),
    Mutant("search: a full disk is a number", "search/_storage.py", "if not is_full(error):", "if True:", "tests/crash/test_torn_albums.py -k full_disk"),
    Mutant("search: paths out of the folder let in", "search/_storage.py", 'if pc.call_function("any", [outside]).as_py():', "if False:", "tests/search/test_hostile_albums.py"),
    Mutant("search: recall counted by pairs", "search/calibration.py", "np.full(size * (size - 1), 1 / (size - 1))", "np.full(size * (size - 1), 0.2)", "tests/search/test_calibration.py"),
    Mutant("save: not synced before it is renamed", "files.py", "        _sync(temporary)\n", "", "tests/crash/test_torn_writes.py tests/crash/test_torn_albums.py"),
    Mutant("save: old files swept before the new ones count", "search/_settling.py", "    write_description(storage.folder, description)\n    storage.sweep(description, table)", "    storage.sweep(description, table)\n    write_description(storage.folder, description)", "tests/crash/test_torn_albums.py"),
    Mutant("web: any host is ours", "web/_gate.py", "return name in self.hosts or", "return True or", GATE),
    Mutant("web: other sites may post", "web/_gate.py", 'return urlsplit(origin).netloc != headers.get("host")', "return False", GATE),
    Mutant("web: the token is not compared", "web/_gate.py", 'return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))', "return bool(given)", GATE),
    Mutant("web: uploads together are not bounded", "web/limits.py", "if self._bytes + len(chunk) > self.limits.bytes_in_flight:", "if False:", "tests/attacks/test_uploads_are_bounded.py -k together"),
    Mutant("web: an announced length is believed", "web/limits.py", "if len(body) + len(chunk) > limit:", "if False:", "tests/attacks/test_uploads_are_bounded.py -k above_the_limit"),
    Mutant("web: what travels with a photo is served", "search/preparing.py", 'clean = Image.frombytes("RGB", picture.size, picture.convert("RGB").tobytes())', 'clean = picture.convert("RGB")', SERVER + " -k stripped"),
    Mutant("web: the total forgets the least score", "web/_served_album.py", "total=int(listed.sum())", "total=len(ranked_scores)", SERVER + " -k marked_photos_stay"),
    Mutant("web: marks are not kept apart", "web/_served_album.py", "tuple(request.right), tuple(request.wrong))\n", "(), ())\n", SERVER + " -k marked_photos_stay"),
    Mutant("web: wrong photos leave the page", "web/_served_album.py", "    if query_row is None or labels is None", "    ranking.scores[[album.photos.row_of(identity) for identity in wrong]] = -np.inf\n    if query_row is None or labels is None", SERVER + " -k marked_photos_stay"),
    Mutant("web: equal scores in favour of AP", "report/ranking_rows.py", 'np.searchsorted(thresholds, scores, side="right")', 'np.searchsorted(thresholds, scores + (right - 1.0) * 1e-9, side="right")', SERVER + " -k equal_scores"),
    Mutant("web: the list to download ends with a page", "web/_served_album.py", "ranking.best(minimum=self._minimum(request))", "ranking.best(request.limit, self._minimum(request))", SERVER + " -k list_to_download"),
    Mutant("web: a picture is kept under any address", "web/_server.py", '"private, max-age=86400" if remembered else "no-store"', '"private, max-age=86400"', VERSIONS + " -k picture"),
    Mutant("web: the address of a picture does not change with it", "web/_served_album.py", "return _key(photo.sha256.encode())", "return _key(photo.path.encode())", VERSIONS + " -k picture"),
    Mutant("web: all files that nobody has read have one address", "web/_served_album.py", "status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size", "", VERSIONS + " -k made_elsewhere"),
    Mutant("web: a new version of the album is not noticed", "search/_storage.py", "return self._stamp() == self._loaded", "return True", VERSIONS + " -k next_request"),
    Mutant("web: what is written while an album is loaded is missed", "web/_current_albums.py", "    return tuple(served if", "    return albums or tuple(served if", VERSIONS + " -k next_request"),
    Mutant("collections: a moved photo is forgotten", "search/_members.py", "take(place, self._by_content.get(member.sha256, ()) if member.sha256 else ())", "pass", COLLECTIONS + " -k moved"),
    Mutant("collections: an edited photo is forgotten", "search/_members.py", "take(place, [self._by_path.get(member.path)])", "pass", COLLECTIONS + " -k member"),
    Mutant("collections: one photo is two members", "search/_members.py", "                taken.add(chosen.id)\n", "", COLLECTIONS + " -k member"),
    Mutant("collections: a move is not remembered", "search/album.py", "        self.collections.refresh()\n", "", COLLECTIONS + " -k moved"),
    Mutant("collections: writers do not wait for each other", "search/_collection_file.py", "with locked(folder, refusal, patience=_PATIENCE):", "if True:", COLLECTIONS + " -k at_once"),
    Mutant("collections: undo takes back what came later", "search/collections.py", "if stored.marks.get(member) is later:", "if True:", COLLECTIONS + " -k one_step"),
    Mutant("collections: undo forgets the mark before", "search/collections.py", "if earlier is not None:", "if False:", COLLECTIONS + " -k in_turn"),
    Mutant("collections: a step that does nothing", "search/collections.py", "if before is not mark:", "if True:", COLLECTIONS + " -k no_step"),
    Mutant("export: two photos of one name", "search/collection_export.py", "    while free.casefold() in taken:", "    while free in taken:", EXPORT + " -k safe_on_any"),
    Mutant("export: a copy is written over", "search/collection_export.py", "    while os.path.lexists(target):", "    while False:", EXPORT + " -k write_over"),
    Mutant("export: a zip of a changed photo", "search/collection_export.py", "            if left:\n", "            if False:\n", EXPORT + " -k while_it_is_packed"),
    Mutant("export: the size forgets wide fields", "search/collection_export.py", "4 + 8 * fields if fields else 0", "0", EXPORT + " -k 32_bits"),
    Mutant("export: a formula in a table", "search/collection_export.py", "if cell.startswith(FORMULA) else cell", "if False else cell", EXPORT + " -k spreadsheet"),
    Mutant("import: a copy elsewhere is not known", "search/collection_import.py", "member is None and Path(path).is_file()", "False", EXPORT + " -k by_their_content"),
    Mutant("web: a version changes under an answer", "search/album.py", "album = copy(self)", "album = self", VERSIONS),
    Mutant("web: one album of two is renewed", "web/_current_albums.py", "not all(served.album.is_current() for served in self._albums)", "not self._albums[0].album.is_current()", VERSIONS + " -k both_albums"),
    Mutant("web: a vector of another model is taken", "web/_served_album.py", "if request.model not in (None, self.model_key):", "if False:", VERSIONS + " -k no_longer"),
    Mutant("web: only the first cookie is read", "web/_gate.py", 'for pair in header.split(";")]', 'for pair in header.split(";")[:1]]', GATE + " -k cookie"),
    Mutant("web: the first cookie of our name decides", "web/_gate.py", "in _cookies(request, _cookie_name(request)))", "in _cookies(request, _cookie_name(request))[:1])", GATE + " -k cookie"),
    Mutant("web: all servers of a machine share a cookie", "web/_gate.py", ".port or 80}", " and 80}", GATE + " -k cookie"),
    Mutant("web: a part of the thumbnail passes for a part of the photo", "web/_served_album.py", 'raise HTTPException(422, f"{name} cannot be read', 'return self.decoder.decode(self.thumbnail(identity), box=box)\n            raise HTTPException(422, f"{name} cannot be read', LARGE + " -k never_taken"),
    Mutant("web: a decoder that ran out of memory stays", "web/_decoder.py", 'if answer.get("exhausted"):', "if False:", LARGE + " -k ran_out"),
    Mutant("web: large photos are refused for their memory", "web/_decoder_process.py", "_BYTES_PER_PIXEL = 18", "_BYTES_PER_PIXEL = 2", LARGE + " -k twelve"),
    Mutant("web: any photo may take the most memory", "web/_decoder_process.py", "    memory.allow(pixels)\n", "", LARGE + " -k bounded_by"),
    Mutant("reading: a palette is averaged", "data/reading.py", 'if image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK") or "transparency" in image.info:', "if False:", "tests/data/test_reading.py -k come_back_fewer"),
    Mutant("interval: a difference has the wrong sign", "metrics/report.py", "mine - theirs", "theirs - mine", "tests/metrics/test_intervals.py -k pairs"),
    Mutant("interval: classes weigh by their queries in the mean over classes", "metrics/report.py", "return sums / sizes, np.ones(len(sizes))", "return sums / sizes, sizes.astype(np.float64)", "tests/metrics/test_intervals.py -k every_figure"),
    Mutant("interval: classes are drawn without replacement", "metrics/intervals.py", "drawn = random.integers(0, classes, rows.shape)", "drawn = random.permuted(np.tile(np.arange(classes), (len(rows), 1)), axis=1)", "tests/metrics/test_intervals.py -k classes_are_drawn"),
    Mutant("precision: float32 is rounded to TF32", "numerics/precision.py", '"tf32" if tf32 else "ieee"', '"tf32"', "tests/losses/test_precision.py -k tf32"),
    Mutant("train: without validation the first model is kept", "training/loop.py", "state.best_step = state.step\n            if writes:", "state.best_step = state.step\n            if writes and not state.step:", "tests/experiments/test_fine_tuning.py -k without_validation"),
    Mutant("data: small classes are drawn by size too", "data/samplers.py", "np.flatnonzero(sizes[class_of] >= per_class) if by_size", "np.arange(len(labels)) if by_size", "tests/data/test_samplers.py -k by_size"),
    Mutant("reading: the size of a PNG decodes it", "data/reading.py", "exif = Image.Image.getexif(image)", "exif = image.getexif()", "tests/data/test_reading.py -k without_its_pixels"),
    Mutant("reading: a large JPEG is decoded whole", "data/reading.py", "or (most_pixels is not None and size[0] * size[1] > most_pixels * shrink**2)", "", "tests/data/test_reading.py -k two_reasons"),
    Mutant("web: who does not read keeps a place", "web/limits.py", "                begun = True\n                self._requests -= 1\n", "", HOLD + " -k no_place"),
    Mutant("web: who does not read is waited for", "web/running.py", "self.loop.call_later(self.seconds_to_read, self.transport.abort)", "None", HOLD + " -k cut_off"),
    Mutant("web: a slow reader is closed politely", "web/running.py", "self.seconds_to_read, self.transport.abort", "self.seconds_to_read, self.transport.close", HOLD + " -k cut_off"),
    Mutant("web: an answer is handed over whole", "web/limits.py", "while len(content) > _PIECE:", "while False:", HOLD + " -k gets_everything"),
    Mutant("web: unread answers are not counted", "web/limits.py", "                    self._unread += size\n", "", HOLD + " -k nobody_takes"),
    Mutant("web: one address may take all", "web/limits.py", "if self._per_address[address] >= self.limits.per_address:", "if False:", HOLD + " -k one_address"),
    Mutant("web: anybody may say where a request comes from", "web/limits.py", "    if address in proxies:\n", "    if True:\n", HOLD + " -k trusted_proxy"),
    Mutant("web: the visitor's own word is believed", "web/limits.py", "for part in reversed(told) if", "for part in told if", HOLD + " -k trusted_proxy"),
    Mutant("web: a slow reader is taken for one who does not read", "web/running.py", 'transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)', "pass", HOLD + " -k gets_everything"),
    Mutant("search: a file swept away while opening is called damage", "search/_storage.py", "        except FileNotFoundError:\n            raise  # swept", "        except ZeroDivisionError:\n            raise  # swept", VERSIONS + " -k swept_away"),
    Mutant("folding: shared outputs folded", "models/_folding.py", "and uses[given.grad_fn] == 1", "", FOLDING),
    Mutant("folding: a convolution used twice folded", "models/_folding.py", "and times[id(convolution)] == times[id(norm)] == 1", "", FOLDING),
    Mutant("folding: bias of the convolution lost", "models/_folding.py", "mean - convolution.bias", "mean", FOLDING),
    Mutant("folding: batch statistics ignored", "models/_folding.py", "return type(norm).forward(norm, features) if norm.training else features", "return features", FOLDING),
    Mutant("folding: gradient of the factor lost", "models/_folding.py", "factor = norm.weight *", "factor = norm.weight.detach() *", FOLDING),
    Mutant("freed memory goes back at once", "memory.py", "library.mallopt(_MMAP_MAX, 0)", "pass", "tests/test_memory.py"),
    Mutant("freed memory never goes back", "memory.py", "library.malloc_trim(0)", "pass", "tests/test_memory.py"),
]  # fmt: skip


def is_caught(mutant: Mutant) -> bool:
    """Whether the named tests fail on a copy of the project with the fault in it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "tools"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        file = copy / "src" / "smoothap" / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise SystemExit(
                f"The fault {mutant.fault!r} no longer fits {mutant.file}: {text.count(mutant.old)} places"
            )
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split()]
        result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=900)
        if result.returncode not in (0, 1):
            raise SystemExit(f"{mutant.fault}: the tests did not run\n{result.stdout}\n{result.stderr}")
        return result.returncode == 1


def main() -> None:
    """Try every fault, or those whose description holds the words given."""
    wanted = [mutant for mutant in MUTANTS if all(word in mutant.fault for word in sys.argv[1:])]
    missed = []
    with ThreadPoolExecutor(2) as pool:
        for mutant, caught in zip(wanted, pool.map(is_caught, wanted), strict=True):
            print(f"{'caught' if caught else 'MISSED'}  {mutant.fault}  ({mutant.file})", flush=True)
            if not caught:
                missed.append(mutant)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} faults caught")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
