/**
 * A product's changed rows, epoch by epoch, for one reader: what his variant shows, from one of its states in the lake to the next.
 * Policy is decided anew at each epoch, and every second within one; where the reader is to be shown other columns, or in
 * another way, he is told to begin anew, and so he is where the lake has not kept what he saw last.
 */

import { createHash } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { toDatabaseError } from '../../database/errors.ts'
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { type LakeState, stateOfScan } from '../../materializer/lake-state.ts'
import { comparable } from '../../materializer/store-sync.ts'
import { lakeTable } from '../../materializer/variants.ts'
import { madeMasks, NO_MASKS, rowMasks } from '../../policy/made-masks.ts'
import { epochsFrom, findEpoch, latestEpoch, type Materialization } from '../../registry/materializations.ts'
import { findVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import { HeldRights } from '../queries/held-rights.ts'
import { asMadeBy } from '../served/as-made-by.ts'
import { accessTo, notMaterialized, orClear, refuseStaleMask, unambiguous } from '../served/served-product.ts'
import type { ChangesDeps } from './deps.ts'

/** Where a follower is. */
export interface ChangePlace {
  /** Of what he is shown: the variant, its masks, its columns and its key. */
  readonly shape: string
  /** The last epoch that he has all of; null: none. */
  readonly epoch: number | null
  /** The one that he has a part of; null: there is none. */
  readonly target: number | null
  /** How much of it, in bytes of its lines. */
  readonly offset: number
}

export interface FollowedChange {
  readonly kind: 'upsert' | 'delete' | 'epoch' | 'reset' | 'problem'
  readonly json: string
  /** After it. */
  readonly place: ChangePlace
}

/** How long nothing is looked for without being told. */
const LOOK_MS = 2_000
/** How long rows of one epoch are sent without asking whether they still may be. */
const DECIDE_MS = 1_000
/** For how long a follower is kept waiting by what passes, before his stream is broken off. */
const TROUBLE_MS = 2 * 60_000
const EPOCHS_AT_ONCE = 100
/** How lines are written: a place counts their bytes, so that another way needs another number. */
const LINES = 1
/** As long as any stream lasts. */
const STREAM_MS = 60 * 60_000

/**
 * Throws what a read of the product would, CONFLICT `not_materialized`, and INVALID_DATA `changes_need_key` where its rows cannot be
 * told apart. What comes after that ends the stream, with a `problem`.
 */
export async function followChanges(
  platform: ChangesDeps,
  call: TenantCall,
  productId: string,
  from: FollowFrom,
): Promise<AsyncGenerator<FollowedChange>> {
  const follower = await followerOf(platform, call, productId)
  return follower.events(await follower.begin(from))
}

/** Throws where there is no such product. */
export async function followerOf(platform: ChangesDeps, call: FollowerCall, productId: string): Promise<Follower> {
  return new Follower(platform, call, await platform.served.find(call.tenant, productId))
}

/** Who follows, and until when. */
type FollowerCall = Pick<TenantCall, 'tenant' | 'principal' | 'requestId' | 'signal'>

/** Only what comes, or everything that is there and what comes, or what follows on a place. */
export type FollowFrom = 'now' | 'start' | ChangePlace

/** Which product a place is one of. */
export async function followedProduct(
  { served }: Pick<ChangesDeps, 'served'>,
  call: TenantCall,
  reference: string,
  domain: string | undefined,
): Promise<string> {
  return (await unambiguous(call, served.find(call.tenant, reference, domain))).id
}

/** What an epoch shows the reader. */
interface View {
  readonly epoch: Materialization & { readonly epoch: number }
  readonly shape: string
  readonly state: LakeState
  readonly table: string
  /** Whether reading it is on record. */
  readonly audit: boolean
}

interface Step {
  readonly before: View | null
  readonly after: View
  readonly offset: number
}

type Next = { readonly step: Step } | { readonly reset: 'changed' | 'expired'; readonly shape: string } | null

interface Followed {
  readonly id: string
  readonly domain: string
  readonly name: string
}

export class Follower {
  readonly #platform: ChangesDeps
  readonly #call: FollowerCall
  readonly #product: Followed

  constructor(platform: ChangesDeps, call: FollowerCall, product: Followed) {
    this.#platform = platform
    this.#call = call
    this.#product = product
  }

  /** Where he begins. Throws as `followChanges`. */
  async begin(from: FollowFrom): Promise<ChangePlace> {
    const newest = await this.#newest()
    // One that has no row yet is judged by those who may read it all the same.
    if (newest === null) {
      await this.#access(null)
      throw notMaterialized(this.#product)
    }
    const view = await this.#viewOf(newest)
    if (view === null) throw notMaterialized(this.#product)
    if (typeof from === 'object') return from
    return from === 'now' ? doneWith(view) : { shape: view.shape, epoch: null, target: null, offset: 0 }
  }

  async *events(begun: ChangePlace): AsyncGenerator<FollowedChange> {
    using _ = this.#platform.changeSpools.follow()
    using bell = this.#platform.events.announcements(this.#call.tenant)
    const rights = new HeldRights(this.#platform, this.#call, { tables: [], timeoutMs: STREAM_MS })
    const { signal } = rights
    // Whoever has nothing to be sent is told where he is, to come back to.
    let isTold = begun.epoch === null || begun.target !== null
    let place = begun
    let troubledSinceMs: number | null = null
    try {
      while (!signal.aborted) {
        bell.clear()
        let waitMs = LOOK_MS
        try {
          for await (const event of isTold ? this.news(place, signal) : this.#whereHeIs(place)) {
            place = event.place
            waitMs = 0
            yield event
          }
          isTold = true
          troubledSinceMs = null
        } catch (error) {
          troubledSinceMs ??= performance.now()
          const isLong = performance.now() - troubledSinceMs > TROUBLE_MS
          const passing = isLong ? null : asPassing(error)
          if (passing === null) throw error
          waitMs = passing.retryAfterMs ?? LOOK_MS
        }
        if (waitMs > 0) await bell.heard(waitMs, signal)
      }
      rights.throwIfEnded()
    } catch (error) {
      if (!isEnd(error)) throw error
      // Whoever comes back to this place by himself would be begun anew, and end here again.
      const { code, message, remedy = null } = error
      yield { kind: 'problem', json: JSON.stringify({ code, detail: message, remedy }), place }
    } finally {
      rights.release()
    }
  }

  async *#whereHeIs(place: ChangePlace): AsyncGenerator<FollowedChange> {
    if (place.epoch !== null) yield await this.#epochEvent(place, place.epoch)
  }

  /** What follows on that place, up to the end of an epoch; nothing: there is nothing yet. */
  async *news(place: ChangePlace, signal: AbortSignal): AsyncGenerator<FollowedChange> {
    const next = await this.#next(place)
    if (next === null) return
    if ('step' in next) return yield* this.#stepEvents(next.step, signal)
    const anew = { shape: next.shape, epoch: null, target: null, offset: 0 }
    yield { kind: 'reset', json: JSON.stringify({ reason: next.reset }), place: anew }
  }

  /** Whether that place of his is of what he is shown now. Throws where he may not read the product any more. */
  async shows({ shape, epoch, target }: ChangePlace): Promise<boolean> {
    const last = target ?? epoch
    const view = last === null ? null : await this.#viewAt(last)
    return view?.shape === shape
  }

  async #newest(): Promise<View['epoch'] | null> {
    return (await latestEpoch(this.#platform.pool, this.#product.id)) as View['epoch'] | null
  }

  async #next(place: ChangePlace): Promise<Next> {
    const newest = await this.#newest()
    const now = newest === null ? null : await this.#viewIfMasked(newest)
    // What is being masked anew shows nothing until it is.
    if (newest === null || now === null) return null
    const next = await this.#from(place, now)
    if (next === null || 'step' in next) return next
    // Where policy has changed amid this look he would be begun anew by what held before, and again by what holds.
    return (await this.#viewIfMasked(newest))?.shape === now.shape ? next : this.#next(place)
  }

  /** @param now what he is shown of the newest epoch */
  async #from(place: ChangePlace, now: View): Promise<Next> {
    const reset = (reason: 'changed' | 'expired') => ({ reset: reason, shape: now.shape })
    if (place.shape !== now.shape) return reset('changed')
    const before = place.epoch === null ? null : await this.#viewAt(place.epoch)
    if (place.epoch !== null && before?.shape !== place.shape) {
      return reset(before === null ? 'expired' : 'changed')
    }
    const after = place.target === null ? await this.#after(before, now) : await this.#viewAt(place.target)
    if (after === null) return place.target === null ? null : reset('expired')
    if (after.shape !== place.shape || (before !== null && !comparable(before.state, after.state))) {
      return reset('changed')
    }
    return { step: { before, after, offset: place.offset } }
  }

  /** The first epoch after that one which shows what today's do; of those between, the lake may have kept none. Null: none is newer. */
  async #after(before: View | null, now: View): Promise<View | null> {
    if (before === null) return now
    const last = before.epoch.epoch
    for (const epoch of await epochsFrom(this.#platform.pool, this.#product.id, last + 1, EPOCHS_AT_ONCE)) {
      const view = await this.#viewIfMasked(epoch as View['epoch'])
      if (view?.shape === now.shape) return view
    }
    return now.epoch.epoch > last ? now : null
  }

  async *#stepEvents({ before, after, offset: begun }: Step, signal: AbortSignal): AsyncGenerator<FollowedChange> {
    const { changeSpools, pool } = this.#platform
    const { tenant } = this.#call
    if (after.audit) {
      await audited(pool, this.#call, tenant, 'read.changes', { type: 'product', id: this.#product.id })
    }
    const step = { tenant, table: after.table, before: before?.state ?? null, after: after.state }
    const at = { shape: after.shape, epoch: before?.epoch.epoch ?? null, target: after.epoch.epoch }
    let offset = begun
    let decidedAtMs = performance.now()
    for (;;) {
      const lines = await changeSpools.read(step, offset)
      if (lines.length === 0) break
      for (const { kind, json, end } of lines) {
        if (performance.now() - decidedAtMs > DECIDE_MS) {
          if ((await this.#viewIfMasked(after.epoch))?.shape !== after.shape) return
          decidedAtMs = performance.now()
        }
        if (signal.aborted) return
        offset = end
        yield { kind, json, place: { ...at, offset } }
      }
    }
    yield await this.#epochEvent(doneWith(after), after.epoch.epoch)
  }

  async #epochEvent(place: ChangePlace, epoch: number): Promise<FollowedChange> {
    const found = await findEpoch(this.#platform.pool, this.#product.id, epoch)
    const told = { epoch, version: found?.version ?? null, committed_at: found?.committedAt.toISOString() ?? null }
    return { kind: 'epoch', json: JSON.stringify(told), place }
  }

  async #viewAt(epoch: number): Promise<View | null> {
    const found = await findEpoch(this.#platform.pool, this.#product.id, epoch)
    return found === null ? null : this.#viewIfMasked(found as View['epoch'])
  }

  /** Null also where the epoch shows what is to be masked by now. */
  async #viewIfMasked(epoch: View['epoch']): Promise<View | null> {
    try {
      return await this.#viewOf(epoch)
    } catch (error) {
      if (isSluiceError(error) && error.code === 'mask_pending') return null
      throw error
    }
  }

  /** Null where the lake has not kept it. Throws `product_forbidden`, `mask_pending`, `changes_need_key`. */
  async #viewOf(epoch: View['epoch']): Promise<View | null> {
    const { lake } = this.#platform
    const { tenant } = this.#call
    const { domain, name } = this.#product
    const { product, access, masksOf } = await this.#access(epoch)
    const snapshotId = epoch.snapshots[access.variant]
    const masked = epoch.maskedColumns[access.variant] ?? []
    refuseStaleMask(product, access.masks, snapshotId === undefined ? NO_MASKS : masksOf(access.variant))
    if (snapshotId === undefined) return null
    const ref = lakeTable(tenant, domain, name, access.variant)
    const state = await lake
      .scan(ref, { snapshotId }, this.#call.signal)
      .then(stateOfScan)
      .catch((error: unknown) => {
        if (isSluiceError(error) && GONE.includes(error.code)) return null
        throw error
      })
    if (state === null) return null
    if (state.primaryKey.length === 0) throw needsKey(access.masks.length > 0)
    const strategies = access.masks.map(({ column, strategy }) => [column, strategy]).toSorted()
    const shape = shapeOf([LINES, access.variant, strategies, masked.toSorted(), state.columns, state.primaryKey])
    return { epoch, shape, state, table: `${this.#product.id} ${access.variant}`, audit: access.audit }
  }

  /** By the stricter of today's policy and that of the version that made the epoch. */
  async #access(epoch: Materialization | null) {
    const { served, rules, pool } = this.#platform
    const product = await served.find(this.#call.tenant, this.#product.id)
    const { principal } = this.#call
    const none = () => NO_MASKS
    if (epoch === null) return { product, access: accessTo(product, principal, rules, () => true), masksOf: none }
    const version = await findVersion<ManifestSet>(pool, product.id, epoch.version)
    const made = version === null ? product : asMadeBy(product, version.normalised, rules)
    const isThere = (variant: string) => variant in epoch.snapshots
    const masksOf = (variant: string) =>
      version === null ? madeMasks(epoch, variant) : rowMasks(epoch, variant, version.normalised.output.columns)
    const today = accessTo(made, principal, rules, isThere)
    const access = orClear(today, (variant) => (isThere(variant) ? masksOf(variant) : undefined))
    return { product, access, masksOf }
  }
}

const PASSING: readonly string[] = ['cpu_time_spent', 'query_timeout']
const GONE: readonly string[] = ['snapshot_not_found', 'snapshot_expired']

const doneWith = ({ shape, epoch }: View): ChangePlace => ({ shape, epoch: epoch.epoch, target: null, offset: 0 })

/** What another look may find gone: a database or an engine that is away, CPU time that is used up. Null: it stays. */
export function asPassing(error: unknown): SluiceError | null {
  const known = toDatabaseError(error, 'changes were followed')
  return known.kind === 'TRANSIENT' || PASSING.includes(known.code) ? known : null
}

function shapeOf(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}

/** What the reader may be told, and can do something about. */
function isEnd(error: unknown): error is SluiceError {
  return isSluiceError(error) && ['PERMISSION', 'INVALID_DATA', 'CONFLICT', 'QUOTA'].includes(error.kind)
}

function needsKey(isMasked: boolean): SluiceError {
  const why = isMasked ? 'its rows have no key as they are masked for you' : 'its rows have no key'
  return new SluiceError('INVALID_DATA', `${why}, by which they could be told apart`, {
    code: 'changes_need_key',
    remedy: isMasked
      ? 'Ask the owner of the product for a grant that unmasks the class of its identity.'
      : 'Give the product a column with role: identity.',
  })
}
