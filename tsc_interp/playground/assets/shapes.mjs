// What a configuration says: the options it leaves out, the names and shapes of its weights, which page can show it.

const DEFAULTS = {
  biases: false,
  act_fn: "gelu",
  final_norm: false,
  n_outputs: 1,
  reads: "first",
  n_positions: 0,
  positions: "learned",
  adaptive_temperature: false,
  attention_norm: "off",
  rotary_dim: 0,
  rotary_base: 10000,
  rotary_adjacent_pairs: false,
  n_key_value_heads: 0,
  qk_norm: "off",
  attention_scale: 0,
  gated_mlp: false,
  tied_embeddings: false,
};

/** A configuration with everything said: JSON leaves out what has its default. */
export const withDefaults = (config) => ({ token_names: [], ...DEFAULTS, ...config });

/** Whether this is the source report's kind of classifier, for which bounds over boxes of counts are written. */
export const isReportKind = (config) =>
  Object.entries(DEFAULTS).every(([name, value]) => config[name] === value) &&
  !config.norm.endsWith("_pre") &&
  ["sqrt_d_head", "sqrt_d_head_log_n"].includes(config.score_scale);

/** Whether the answer depends on more than how often each letter occurs (ClassifierConfig.needs_order). */
export const needsOrder = ({ reads, n_layers, n_positions }) =>
  n_positions > 0 || reads === "last_letter" || (reads === "last" && n_layers > 1);

export const keyValueHeads = (config) => config.n_key_value_heads || config.n_heads;

/** What each token is called by position in the vocabulary without PAD: CLS, then the letters or their own names. */
export const calledTokens = (config, letters) => ["CLS", ...(config.token_names.length > 0 ? config.token_names : letters)];

/** Every weight's name and shape, in the order data flows, as ClassifierConfig.weight_shapes has it. */
export function weightShapes(given) {
  const config = withDefaults(given);
  const { d_model: d, n_heads: h, d_head: k, d_mlp: m } = config;
  const shapes = { "embed.W_E": [2 + config.n_letters, d] };
  const normShapes = (kind, name, width) => {
    for (const part of { rms: ["w"], layer: ["w", "b"] }[kind] ?? []) shapes[`${name}.${part}`] = [width];
  };
  if (config.n_positions > 0 && ["learned", "shortformer"].includes(config.positions))
    shapes["pos_embed.W_pos"] = [config.n_positions, d];
  for (let layer = 0; layer < config.n_layers; layer++) {
    const block = `blocks.${layer}`;
    if (h > 0) {
      normShapes(config.norm, `${block}.ln1`, d);
      const heads = { Q: h, K: keyValueHeads(config), V: keyValueHeads(config) };
      for (const [part, n] of Object.entries(heads)) shapes[`${block}.attn.W_${part}`] = [n, d, k];
      shapes[`${block}.attn.W_O`] = [h, k, d];
      if (config.score_scale === "sqrt_d_head_ssmax") shapes[`${block}.attn.log_n_factor`] = [h];
      for (const part of ["q_norm", "k_norm"]) normShapes(config.qk_norm, `${block}.attn.${part}`, k);
      if (config.biases) {
        for (const [part, n] of Object.entries(heads)) shapes[`${block}.attn.b_${part}`] = [n, k];
        shapes[`${block}.attn.b_O`] = [d];
      }
      normShapes(config.attention_norm, `${block}.ln1_post`, d);
    }
    if (m > 0) {
      normShapes(config.norm, `${block}.ln2`, d);
      if (config.gated_mlp) shapes[`${block}.mlp.W_gate`] = [d, m];
      shapes[`${block}.mlp.W_in`] = [d, m];
      shapes[`${block}.mlp.W_out`] = [m, d];
      if (config.biases) Object.assign(shapes, { [`${block}.mlp.b_in`]: [m], [`${block}.mlp.b_out`]: [d] });
    }
  }
  if (config.final_norm) normShapes(config.norm, "ln_final", d);
  if (!config.tied_embeddings) shapes["unembed.W_U"] = [d, config.n_outputs];
  if (config.biases) shapes["unembed.b_U"] = [config.n_outputs];
  return shapes;
}
