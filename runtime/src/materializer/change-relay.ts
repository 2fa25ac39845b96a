/**
 * Sends the rows that each epoch changed to the product's topics on the bus. It goes by what the registry says was sent,
 * beside the runs: neither a run nor a read ever waits for the bus, and after a crash what is missing is sent. Of all
 * processes on a registry one does it at a time, by a lease; what a process sends that lost it is refused by the bus.
 */
import { createHash, randomUUID } from 'node:crypto'
import { type ChangeBus, type ChangeReaders, type ChangeWriter, isSluiceError } from '@sluice/sdk'
import type { DatabaseAddress } from '../database/address.ts'
import { inTransaction } from '../database/pools.ts'
import { changeMessages, changeTopicPrefix, inBatches } from '../events/change-message.ts'
import { appendEvent } from '../events/outbox.ts'
import { acquireRelay, type RelayLease, releaseRelay } from '../events/relay-positions.ts'
import { runInRounds } from '../events/rounds.ts'
import type { FaultPoint } from '../fault-points.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { stricter } from '../policy/classification.ts'
import type { MaskingRules } from '../policy/masking.ts'
import {
  type ChangeTopicState,
  changesDelayed,
  changesResumed,
  changesSent,
  changeTopicMade,
  changeTopicsOf,
  changeTopicsWithoutProduct,
  type DueProduct,
  expectChangeTopic,
  forgetChangeTopic,
  nothingSent,
  productsWithChanges,
  rememberReaders,
} from '../registry/change-topics.ts'
import { recordedError } from '../registry/deployments.ts'
import { latestEpoch } from '../registry/materializations.ts'
import { findProduct, type Product } from '../registry/products.ts'
import { blockingColumns } from '../registry/raised-classes.ts'
import { isClearedLoginTaken } from '../registry/tenants.ts'
import { findVersion } from '../registry/versions.ts'
import { type ChangeDeps, ChangesLost, changesSince } from './change-epochs.ts'
import { mayStay, type PlannedTopic, planTopics } from './change-plan.ts'
import type { MaterializeDeps } from './deps.ts'

export interface ChangeRelayOptions extends ChangeDeps, Pick<MaterializeDeps, 'logger'> {
  /** Of the registry, for the connection that listens. */
  readonly address: DatabaseAddress
  readonly bus: ChangeBus
  /** Another one has none of the topics. */
  readonly busName: string
  readonly rules: MaskingRules
  readonly faultPoint: FaultPoint
  readonly onSent: (variant: string, rows: number) => void
  /** Default 30 s; longer than any call to the bus. */
  readonly leaseMs?: number
  /** How often is looked without being told. Default 2 s. */
  readonly pollMs?: number
}

const RELAY = 'changes'
const LEASE_MS = 30_000
const POLL_MS = 2000
const AT_ONCE = 50
const WAITING_MS = 5000
const FIRST_RETRY_MS = 2000
const LAST_RETRY_MS = 300_000
/** Below what buses take in one piece unless they are told otherwise. */
const BATCH = { messages: 2000, characters: 400_000 } as const

export class ChangeRelay {
  readonly #options: Required<ChangeRelayOptions>
  readonly #settings: string
  readonly #owner = randomUUID()
  readonly #stop = new AbortController()
  readonly #rounds: Promise<void>
  readonly #toldOf = new Set<string>()
  #lease: RelayLease | null = null
  #writer: { readonly token: number; readonly writer: ChangeWriter } | null = null

  constructor(options: ChangeRelayOptions) {
    this.#options = { leaseMs: LEASE_MS, pollMs: POLL_MS, ...options }
    // The last one: what topics of a release before may have to be made anew for.
    this.#settings = digestOf(options.rules, options.bus.readers, options.busName, 'logins of one tenant')
    const { address, logger, pollMs, pool } = this.#options
    const { signal } = this.#stop
    this.#rounds = runInRounds({
      address,
      applicationName: 'sluice-changes',
      pollMs,
      round: () => this.#round(),
      failed: async (error, isNews) => {
        // Of a round that was ended the error says only that.
        if (isNews && !signal.aborted) logger.warn('changed rows wait for the bus', { code: codeOf(error) })
        await this.#closeWriter()
      },
      ended: async () => {
        await this.#closeWriter()
        // One that is not given back ends by itself.
        if (this.#lease !== null) await releaseRelay(pool, this.#lease).catch(() => undefined)
      },
      signal,
    })
  }

  /** Ends after the batch that is under way, and lets another process go on. Repeatable. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#rounds
  }

  async #round(): Promise<void> {
    const { pool, bus } = this.#options
    if ((await this.#acquireLease()) === null) return
    for (const topic of await changeTopicsWithoutProduct(pool, !bus.isOn, AT_ONCE)) await this.#remove(topic)
    if (!bus.isOn) return
    for (const due of await productsWithChanges(pool, this.#settings, AT_ONCE)) {
      if (this.#stop.signal.aborted || (await this.#acquireLease()) === null) return
      await this.#serve(due)
    }
  }

  /** The lease, renewed where it is ours; null where another process has it. */
  async #acquireLease(): Promise<RelayLease | null> {
    const { pool, leaseMs } = this.#options
    this.#lease = await acquireRelay(pool, RELAY, this.#owner, leaseMs)
    return this.#lease
  }

  /** One product's failure keeps none of the others waiting, unless it is the bus that is away. */
  async #serve(due: DueProduct): Promise<void> {
    const { pool } = this.#options
    const product = await findProduct(pool, due.tenant, due.id)
    if (product === null) return
    const isFailing = (await changeTopicsOf(pool, product.id)).some(({ error }) => error !== null)
    try {
      await this.#bringUpToDate(product, due.madeFor)
      if (isFailing) await this.#tellResumed(product)
    } catch (error) {
      this.#stop.signal.throwIfAborted()
      await this.#closeWriter()
      await this.#tellDelayed(product, error)
      if (isSluiceError(error, 'TRANSIENT')) throw error
    }
  }

  async #bringUpToDate(product: Product, madeFor: string): Promise<void> {
    const { pool } = this.#options
    const planned = await this.#plan(product)
    for (const { variant, topic } of planned) {
      await expectChangeTopic(pool, { productId: product.id, tenant: product.tenant, variant, topic })
    }
    let isWaiting = false
    for (const state of await changeTopicsOf(pool, product.id)) {
      const plan = planned.find(({ variant }) => variant === state.variant)
      if (plan === undefined) await this.#remove(state)
      else if (plan.refused !== null) await this.#refuse(state, plan, madeFor)
      else isWaiting = !(await this.#fill(product, await this.#make(state, plan, madeFor), plan)) || isWaiting
    }
    if (isWaiting) await changesDelayed(pool, product.id, null, WAITING_MS)
  }

  async #plan(product: Product): Promise<readonly PlannedTopic[]> {
    const { pool, rules } = this.#options
    const newest = await latestEpoch(pool, product.id)
    const [version, ofNewest] = await Promise.all(
      [product.currentVersion, newest?.version ?? product.currentVersion].map((name) =>
        findVersion<ManifestSet>(pool, product.id, name as string),
      ),
    )
    if (!version) return []
    const then = ofNewest?.normalised.product.classification ?? product.classification
    const level = stricter(product.classification, then)
    const raised = await blockingColumns(pool, product.id)
    const logins = await this.#loginsOf(product.tenant)
    return planTopics(product, level, version.normalised, ofNewest?.normalised ?? null, rules, logins, raised)
  }

  /** None that is cleared where it is another tenant's: such topics are taken away, and it is told by which tenant. */
  async #loginsOf(tenant: string): Promise<ChangeReaders> {
    const { pool, bus, logger } = this.#options
    const { reader, cleared } = bus.readers
    if (reader === null || cleared === null) return bus.readers
    if (!(await isClearedLoginTaken(pool, tenant, { reader, cleared }))) return bus.readers
    if (!this.#toldOf.has(tenant)) {
      this.#toldOf.add(tenant)
      logger.warn(
        'the login of this tenant’s cleared readers is that of another tenant, so its rows in clear are on no topic: name cleared readers so that no slug is like them, as User:{tenant}--cleared',
        { tenant, login: cleared.replaceAll('{tenant}', tenant) },
      )
    }
    return { reader, cleared: null }
  }

  /** The topic with its rules, and nothing in it that may not be there (any more). Returns the newest epoch in it. */
  async #make(state: ChangeTopicState, plan: PlannedTopic, madeFor: string): Promise<number | null> {
    const { pool, bus } = this.#options
    const { topic: name, readers, shape } = plan
    const stays = mayStay(state.shape, shape)
    if (!stays && state.shape !== null) {
      // Whoever wrote before is shut out first: nothing may be added behind the end that is emptied to.
      await this.#openWriter()
      await bus.empty(name)
    }
    await rememberReaders(pool, state, [...new Set([...state.readers, ...readers])])
    const isNew = await bus.ensure({
      name,
      prefix: changeTopicPrefix(state.tenant),
      readers,
      formerReaders: state.readers,
    })
    const isEmpty = isNew || !stays
    await changeTopicMade(pool, state, { madeFor, shape, readers, refused: null, isEmpty })
    return isEmpty ? null : state.sentEpoch
  }

  /** Removes the topic, where there was one, and says why. */
  async #refuse(state: ChangeTopicState, { refused }: PlannedTopic, madeFor: string): Promise<void> {
    const { pool, bus } = this.#options
    if (state.refused === null) await bus.remove(state.topic)
    await changeTopicMade(pool, state, { madeFor, shape: null, readers: [], refused, isEmpty: true })
  }

  async #remove(state: ChangeTopicState): Promise<void> {
    await this.#options.bus.remove(state.topic)
    await forgetChangeTopic(this.#options.pool, state)
  }

  /** Sends what the topic lacks. False where there is something that may not be sent. */
  async #fill(product: Product, sent: number | null, plan: PlannedTopic): Promise<boolean> {
    const { pool, bus } = this.#options
    const key = { productId: product.id, variant: plan.variant }
    const newest = (await latestEpoch(pool, product.id))?.epoch ?? null
    let reached = sent
    try {
      for await (const { epoch, changes } of changesSince(product, plan, sent, this.#stop.signal, this.#options)) {
        const rows = await this.#send(product, plan, epoch, changes)
        reached = epoch.epoch as number
        await this.#options.faultPoint('changes.after-send')
        const lease = await this.#leaseOrStop()
        if (!(await changesSent(pool, key, reached, lease))) throw lostLease()
        this.#options.onSent(plan.variant, rows)
      }
    } catch (error) {
      if (!(error instanceof ChangesLost)) throw error
      await this.#openWriter()
      await bus.empty(plan.topic)
      await nothingSent(pool, key)
      return this.#fill(product, null, plan)
    }
    return newest === null || (reached ?? 0) >= newest
  }

  /** In batches, of which each has been acknowledged before the next is made. */
  async #send(
    product: Product,
    { topic, variant }: PlannedTopic,
    { epoch, version, committedAt }: { epoch: number | null; version: string; committedAt: Date },
    changes: Parameters<typeof changeMessages>[2],
  ): Promise<number> {
    const { id: productId, tenant, domain, name } = product
    const stream = { tenant, productId, domain, product: name, variant, topic }
    await this.#options.faultPoint('changes.before-send')
    const messages = changeMessages(stream, { epoch: epoch as number, version, committedAt }, changes)
    for await (const batch of inBatches(messages, BATCH)) {
      await this.#leaseOrStop()
      await (await this.#openWriter()).write(batch)
    }
    return changes.upsertCount + changes.deleteCount
  }

  async #leaseOrStop(): Promise<RelayLease> {
    this.#stop.signal.throwIfAborted()
    return (await this.#acquireLease()) ?? Promise.reject(lostLease())
  }

  /** One for each time that the lease is had: opening it is what shuts others out. */
  async #openWriter(): Promise<ChangeWriter> {
    const { token } = await this.#leaseOrStop()
    if (this.#writer?.token === token) return this.#writer.writer
    await this.#closeWriter()
    const writer = await this.#options.bus.openWriter()
    this.#writer = { token, writer }
    return writer
  }

  async #closeWriter(): Promise<void> {
    await this.#writer?.writer.close()
    this.#writer = null
  }

  async #tellDelayed(product: Product, error: unknown): Promise<void> {
    const { pool, logger } = this.#options
    const states = await changeTopicsOf(pool, product.id)
    const attempts = Math.max(0, ...states.map((state) => state.attempts))
    const retryAfterMs = Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempts, 10), LAST_RETRY_MS)
    const away = isSluiceError(error, 'TRANSIENT')
    await changesDelayed(pool, product.id, recordedError(error), away ? FIRST_RETRY_MS : retryAfterMs)
    if (attempts > 0) return
    logger.warn('changes of a product wait', { tenant: product.tenant, product: product.id, code: codeOf(error) })
    await this.#tell(product, 'changes_delayed', { error: codeOf(error) })
  }

  async #tellResumed(product: Product): Promise<void> {
    await changesResumed(this.#options.pool, product.id)
    await this.#tell(product, 'changes_resumed', {})
  }

  async #tell(product: Product, name: string, more: Readonly<Record<string, unknown>>): Promise<void> {
    const data = { product: product.name, namespace: product.domain, ...more }
    const event = { tenant: product.tenant, kind: 'materialization', name, subject: product.id, data } as const
    await inTransaction(this.#options.pool, (tx) => appendEvent(tx, event))
  }
}

function lostLease(): Error {
  return new Error('another process sends changes now')
}

function codeOf(error: unknown): string {
  return isSluiceError(error) ? error.code : 'internal_error'
}

function digestOf(...settings: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(settings)).digest('hex').slice(0, 16)
}
