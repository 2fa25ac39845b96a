/** When a version of a product is made by itself: held against the products that it names, and said in the plan. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { circular, type WantedSchedule } from '../../jobs/set-schedule.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Product } from '../../registry/products.ts'
import { type FollowedProduct, followsItself } from '../../registry/schedule-follows.ts'
import { setterOf } from '../../registry/schedules.ts'
import { isReader } from '../products/readable-product.ts'
import { findByReference } from '../served/find-by-reference.ts'
import { NO_PRODUCT } from '../served/served-product.ts'
import type { DeployDeps } from './deps.ts'

/**
 * The products that it waits for. One that the caller may not read is not there for him. Throws INVALID_DATA
 * `manifests_invalid` where it would wait for itself.
 */
export async function followedProducts(
  platform: DeployDeps,
  call: TenantCall,
  product: Product,
  { compute: { schedule } }: ManifestSet,
): Promise<readonly FollowedProduct[]> {
  const names = schedule !== undefined && 'after' in schedule ? schedule.after : []
  const followed: FollowedProduct[] = []
  for (const name of names) followed.push({ name, id: await readableId(platform, call, name) })
  const circle = followed.length === 0 ? null : await followsItself(platform.pool, product.id, followed)
  if (circle !== null) throw circular(circle, followed)
  return followed
}

/** Of a new version: one that comes back waits in vain, and says so. Throws INVALID_DATA `manifests_invalid`. */
export function checkFollowed({ followed }: { readonly followed: readonly FollowedProduct[] }): void {
  const errors = followed.flatMap(({ name, id }, at) => {
    if (id !== null) return []
    const message = `there is no product "${name}"`
    return [{ manifest: 'compute', path: `schedule.after[${at}]`, message, hint: 'Write namespace.name.' }]
  })
  if (errors.length === 0) return
  throw new SluiceError('INVALID_DATA', 'the schedule waits for products that there are not', {
    code: 'manifests_invalid',
    remedy: 'Correct what errors[] names; each entry has its file, line and column.',
    details: { errors },
  })
}

async function readableId(platform: DeployDeps, call: TenantCall, name: string): Promise<string | null> {
  try {
    const product = await findByReference(platform.pool, call.tenant, name)
    return (await isReader(platform, call, product)) ? product.id : null
  } catch (error) {
    if (isSluiceError(error) && error.code === NO_PRODUCT.code) return null
    throw error
  }
}

/** Null: the version is not made by itself. */
export function wantedSchedule(
  { principal }: TenantCall,
  { compute: { schedule } }: ManifestSet,
  followed: readonly FollowedProduct[],
): WantedSchedule | null {
  return schedule === undefined ? null : { schedule, followed, setter: setterOf(principal) }
}

/** What a plan has to say of it, where it is not as before. */
export function scheduleNotes(live: ManifestSet | null, next: ManifestSet): readonly string[] {
  const { schedule } = next.compute
  const before = live?.compute.schedule
  if (JSON.stringify(before) === JSON.stringify(schedule)) return []
  if (schedule === undefined) return ['it is not made by a schedule any more']
  const made = 'it is made by itself, and not by syncs of its connections'
  if ('after' in schedule) return [`${made}: when each of ${schedule.after.join(', ')} has a new epoch`]
  if ('maxAgeMs' in schedule) return [`${made}: when its rows would be older than ${schedule.maxAge}`]
  if ('everyMs' in schedule) return [`${made}: every ${schedule.every}`]
  return [`${made}: at ${schedule.cron}, by the clocks of ${schedule.timeZone}`]
}
