/** Of answers with rows of products: how many seconds ago the source was read that the oldest of them are of. */
export const FRESHNESS = 'X-Sluice-Freshness'
