/**
 * Which products of a wave are made in a run of their own, so that the others and the connection's next run do not wait for them.
 * Pure: by how long their makings took of late, and by what is made of them.
 */
import { PRODUCTS } from '../registry/product-sources.ts'
import { fullNameOf } from './product-outcome.ts'
import type { WaveMember } from './wave.ts'

/** What takes less holds nobody up. */
export const SLOW_MS = 2_000
/** So many times as long as the quickest that would wait for it. */
export const SLOW_TIMES = 4

/**
 * By the name of each member that is left, the slow product whose run it is left to: itself, or one that it is made of. A product
 * is left with all that is made of it, and only where all that is made of it is made of nothing else: what rests on it and on rows
 * that go on meanwhile would never find both of one wave.
 *
 * @param tookMs by id; of those that are missing nobody knows it
 */
export function slowGroups(
  members: readonly WaveMember[],
  tookMs: ReadonlyMap<string, number>,
): ReadonlyMap<string, string> {
  const groups = new Map<string, string>()
  for (const member of members) {
    const name = fullNameOf(member.product)
    const own = tookMs.get(member.product.id) ?? 0
    if (own < SLOW_MS || groups.has(name)) continue
    const group = restsOn(name, members)
    const others = members.filter(({ product }) => !group.has(fullNameOf(product)))
    const known = others.flatMap(({ product }) => tookMs.get(product.id) ?? [])
    if (known.length === 0 || own < SLOW_TIMES * Math.min(...known)) continue
    if (!members.every((one) => isOfGroup(one, name, group))) continue
    for (const one of group) groups.set(one, name)
  }
  return groups
}

/** Its own name, and those of all members that are made of it, be it through others. */
function restsOn(name: string, members: readonly WaveMember[]): ReadonlySet<string> {
  const group = new Set([name])
  for (const { product, upstream } of members) {
    if (upstream.some((one) => group.has(one))) group.add(fullNameOf(product))
  }
  return group
}

/** Whether it stands outside, begins the group, or is made of members of the group alone. What takes the latest rows waits for none. */
function isOfGroup({ product, manifests }: WaveMember, first: string, group: ReadonlySet<string>): boolean {
  const name = fullNameOf(product)
  if (!group.has(name) || name === first) return true
  return manifests.inputs.every(
    ({ connection, table, epoch }) => connection === PRODUCTS && (epoch === 'latest' || group.has(table)),
  )
}
