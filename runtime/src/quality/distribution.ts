/** How the values of a column lie, and how far one such profile is from another. */

/**
 * Of numbers: how many lie below the lowest edge, how many in each bucket that ends with an edge, and how many above all. What
 * is below has a bucket of its own, because the lowest edge may be the lowest value: nothing was ever below it then.
 */
export interface NumberProfile {
  readonly kind: 'numbers'
  /** In rising order, each once. */
  readonly edges: readonly number[]
  /** Two more than edges. */
  readonly counts: readonly number[]
}

/** Of categories: the most frequent ones by fingerprint, and all others together. */
export interface CategoryProfile {
  readonly kind: 'categories'
  readonly names: readonly string[]
  readonly counts: readonly number[]
  readonly others: number
}

export type Profile = NumberProfile | CategoryProfile

export const bucketsOf = (profile: Profile): readonly number[] =>
  profile.kind === 'numbers' ? profile.counts : [...profile.counts, profile.others]

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

/** Added to each bucket: an empty one is no proof that nothing lies there. */
const UNSEEN = 0.5

/**
 * The population stability index of two histograms over the same buckets, the symmetric divergence of their shares
 * (Jeffreys 1946; by this name in Siddiqi, Credit Risk Scorecards, 2006). 0 where the shares are the same.
 */
export function stabilityIndex(expected: readonly number[], actual: readonly number[]): number {
  const shares = (counts: readonly number[]) => {
    const total = sum(counts) + UNSEEN * counts.length
    return counts.map((count) => (count + UNSEEN) / total)
  }
  const [own, other] = [shares(actual), shares(expected)]
  return sum(own.map((share, at) => (share - (other[at] as number)) * Math.log(share / (other[at] as number))))
}
