/** How long snapshots of the version are kept in the lake, for the plan; nothing where every one is, as ever. */
import { keepsHistory } from '../../manifest/contract-config.ts'
import { durationText } from '../../manifest/durations.ts'
import type { LadderStep, ManifestSet, SnapshotLadder, SnapshotRetention } from '../../manifest/manifest-set.ts'
import { retentionOfProduct } from '../../materializer/expirable-snapshots.ts'
import { isMadeAsChangesCome } from '../../materializer/made-as-changes-come.ts'
import { MOST_SNAPSHOTS } from '../../materializer/snapshot-ladder.ts'
import type { Product } from '../../registry/products.ts'
import type { DeployDeps } from './deps.ts'

export async function retentionNotes(
  { pool }: Pick<DeployDeps, 'pool'>,
  product: Product,
  manifests: ManifestSet,
): Promise<readonly string[]> {
  const retention = await retentionOfProduct(pool, product, manifests)
  const isContinuous = await isMadeAsChangesCome(pool, product, manifests)
  const held = manifests.serving.endpoints.find(({ type, config }) => keepsHistory(type, config))
  const grows = 'every commit writes the list of all of them'
  if (held !== undefined && (retention !== null || isContinuous)) {
    return [
      `snapshots: all are kept, since the ${held.type} endpoint keeps a history of them${isContinuous ? `; ${grows}` : ''}`,
    ]
  }
  if (retention === null) return isContinuous ? [`snapshots: all are kept, as output.yaml says; ${grows}`] : []
  if (!('ladder' in retention))
    return [`snapshots: kept are ${boundsText(retention)}, and those that something still needs`]
  const by = manifests.output.retention === undefined ? ', as of any product that is made as changes come' : ''
  return [
    `snapshots: kept are ${ladderText(retention.ladder)}; ${MOST_SNAPSHOTS} at most, beside those that something still needs${by}`,
  ]
}

function boundsText({ maxAgeMs, keepLast }: SnapshotRetention): string {
  const parts = [
    ...(maxAgeMs === null ? [] : [`those of the last ${durationText(maxAgeMs)}`]),
    ...(keepLast === null ? [] : [`the newest ${keepLast}`]),
  ]
  return parts.join(' and ')
}

/** "all of the last 1m, then one each 1m up to 1h, then one each 1d" */
function ladderText(ladder: SnapshotLadder): string {
  return ladder.map(stepText).join(', then ')
}

function stepText({ forMs, everyMs }: LadderStep, at: number): string {
  const which = everyMs === null ? 'all' : `one each ${durationText(everyMs)}`
  if (forMs === null) return at === 0 ? which : `${which} of what is older`
  return at === 0 ? `${which} of the last ${durationText(forMs)}` : `${which} up to ${durationText(forMs)}`
}
