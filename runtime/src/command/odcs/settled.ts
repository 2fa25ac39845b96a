/** What the rules of manifests take of a draft that a contract gave. */
import { MANIFEST_LIMITS } from '../../manifest/files/shape.ts'
import type { ParsedManifests } from '../../manifest/parse-manifests.ts'
import { filesOf, type ProductDraft } from '../product-draft.ts'
import { proposedEndpoints, type StoreOnOffer } from '../proposed-parts.ts'
import { OWN } from './contract.ts'
import type { ReadRule } from './read-rules.ts'

/** Without a server it is not known which it has. */
export const ALL_STORES: readonly StoreOnOffer[] = ['lookup', 'timeseries', 'analytics', 'realtime'].map((type) => ({
  type,
  refuses: new Set<string>(),
}))

export type Parse = (texts: Readonly<Record<string, string>>) => ParsedManifests

export interface ReadContract {
  readonly draft: ProductDraft
  /** What of the contract no manifest says, each by its place. */
  readonly lost: readonly string[]
}

const MOST_ROUNDS = 600

/** Checks and endpoints that the manifests' own rules refuse are taken out one after another, each with the reason. */
export function settled(
  draft: ProductDraft,
  checks: readonly ReadRule[],
  lost: readonly string[],
  parse: Parse,
): ReadContract {
  const told = [...lost]
  let left = checks.slice(0, MANIFEST_LIMITS.checks)
  for (const { path } of checks.slice(MANIFEST_LIMITS.checks))
    told.push(`${path}: a product has at most ${MANIFEST_LIMITS.checks} checks`)
  let current = draft
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const whole = { ...current, quality: { checks: left.map(({ check }) => check) } }
    const parsed = parse(filesOf(whole, null))
    if (parsed.ok) return { draft: whole, lost: told }
    const places = parsed.problems.map(({ manifest, path, message }) => ({ manifest, path, message }))
    const bad = new Map(
      places.flatMap(({ manifest, path, message }) => {
        const index = manifest === 'quality' ? /^checks\[(\d+)\]/.exec(path)?.[1] : undefined
        return index === undefined ? [] : [[Number(index), message] as const]
      }),
    )
    const serving = places.find(({ manifest }) => manifest === 'serving')
    const partition = places.find(({ manifest, path }) => manifest === 'output' && path.startsWith('partitioning'))
    if (bad.size > 0) {
      for (const [index, message] of bad) told.push(`${left[index]?.path ?? ''}: cannot be a check here: ${message}`)
      left = left.filter((_, index) => !bad.has(index))
    } else if (serving !== undefined && current.endpoints.length > 0) {
      told.push(`customProperties: ${OWN.endpoints}: ${serving.message}`)
      const proposed = proposedEndpoints(current.product.name, current.columns, ALL_STORES).endpoints
      const isProposed = JSON.stringify(proposed) === JSON.stringify(current.endpoints)
      current = { ...current, endpoints: isProposed ? [] : proposed }
    } else if (partition !== undefined) {
      told.push(`schema: partitioned: ${partition.message}`)
      const { partitioning: _, ...output } = current.output ?? {}
      current = { ...current, output }
    } else {
      throw new Error(`the contract cannot be made a product: ${places[0]?.manifest}.yaml: ${places[0]?.message}`)
    }
  }
  throw new Error('the contract cannot be made a product: its rules are refused')
}
