/** A dataset of a check: what the store was told, beside what it should hold now. */
import type {
  ChangeSet,
  Commit,
  LakeSnapshot,
  ReadOperation,
  ReadPolicy,
  Receipt,
  Row,
  ServingStore,
  Target,
} from '@sluice/sdk'
import { callDeadline } from './call-deadline.ts'
import { changeSetOf } from './change-set.ts'
import { CheckFailure } from './check.ts'
import { describeDifference, differenceOf, indexOf, keyText } from './compare.ts'
import type { VirtualClock } from './host.ts'
import { answerOf, planOf, pointPlan, seeAll, waysToSee } from './reading.ts'

export interface DatasetParts {
  readonly target: Target
  readonly template: string
  readonly clock: VirtualClock
  readonly store: () => ServingStore
  readonly capabilities: Parameters<typeof waysToSee>[0]
  readonly snapshot: (dataset: Dataset, rows: readonly Row[]) => Promise<LakeSnapshot>
}

/** A write that is made ready and can be given to any store, any number of times. */
export interface PreparedWrite {
  readonly changes: ChangeSet
  readonly commit: Commit
  /** What the dataset holds once it is applied. */
  readonly content: ReadonlyMap<string, Row>
}

export interface WriteWish {
  readonly mode: 'full' | 'delta'
  readonly upserts: readonly Row[]
  /** Rows to delete; their other columns do not matter. */
  readonly deletes?: readonly Row[]
  readonly commit?: Partial<Commit>
}

export interface Look {
  readonly rows: readonly Row[]
  readonly epoch: number
  /** Whether all rows were asked for. */
  readonly isWhole: boolean
  /** Those of a content that were asked for. */
  of(content: Iterable<Row>): readonly Row[]
}

/** The lake of a runtime writes zeros without a sign, so that a store which reads it cannot show one. */
function asLakeHas(rows: readonly Row[]): readonly Row[] {
  return rows.map((row) => row.map((cell) => (cell === 0 ? 0 : cell)))
}

export class Dataset {
  readonly target: Target
  readonly template: string
  /** Every row ever made ready for it. */
  readonly candidates: Row[] = []
  content: ReadonlyMap<string, Row> = new Map()
  epoch = 0
  fence = 1n
  readonly #parts: DatasetParts

  constructor(parts: DatasetParts) {
    this.target = parts.target
    this.template = parts.template
    this.#parts = parts
  }

  /** The next epoch, dated now. Time moves on by a minute first, so that no two commits are simultaneous. */
  async prepare(wish: WriteWish): Promise<PreparedWrite> {
    await this.#parts.clock.advance(60_000)
    const { schema } = this.target
    const deletes = (wish.deletes ?? []).map((row) =>
      schema.primaryKey.map((name) => row[indexOf(schema, name)] ?? null),
    )
    const content = new Map(wish.mode === 'full' ? [] : this.content)
    for (const row of wish.deletes ?? []) content.delete(keyText(schema, row))
    for (const row of wish.upserts) content.set(keyText(schema, row), row)
    this.candidates.push(...wish.upserts, ...(wish.deletes ?? []))
    const lake = await this.#parts.snapshot(this, [...content.values()])
    const commit: Commit = {
      epoch: this.epoch + 1,
      previousEpoch: wish.mode === 'full' ? null : this.epoch,
      fence: this.fence,
      committedAt: this.#parts.clock.nowText(),
      signal: callDeadline(),
      ...wish.commit,
    }
    return { changes: changeSetOf({ mode: wish.mode, schema, upserts: wish.upserts, deletes, lake }), commit, content }
  }

  /** Gives it to the store and takes it as done; a receipt that says otherwise fails the check. */
  async apply(write: PreparedWrite, store: ServingStore = this.#parts.store()): Promise<Receipt> {
    const receipt = await store.write(this.target, write.changes, write.commit)
    if (receipt.epoch !== write.commit.epoch) throw wrongReceipt(receipt, write.commit.epoch)
    this.taken(write)
    return receipt
  }

  /** Notes that the store has taken the write. */
  taken(write: PreparedWrite): void {
    this.content = write.content
    this.epoch = write.commit.epoch
    if (write.commit.fence > this.fence) this.fence = write.commit.fence
  }

  async full(upserts: readonly Row[]): Promise<Receipt> {
    return this.apply(await this.prepare({ mode: 'full', upserts }))
  }

  async delta(upserts: readonly Row[], deletes: readonly Row[] = []): Promise<Receipt> {
    return this.apply(await this.prepare({ mode: 'delta', upserts, deletes }))
  }

  /** The ways in which the store can show all of it. Fails where it has none: nothing could then be proven. */
  ways(): readonly ReadOperation[] {
    const ways = waysToSee(this.#parts.capabilities, this.target.schema)
    if (ways.length === 0) throw nothingToSee()
    return ways
  }

  async see(
    options: {
      readonly policy?: ReadPolicy
      readonly way?: ReadOperation
      readonly target?: Target
      readonly store?: ServingStore
    } = {},
  ) {
    const { candidates, template } = this
    const sight = { target: options.target ?? this.target, candidates, template }
    const [first = 'scan'] = this.ways()
    const policy = options.policy ? { policy: options.policy } : {}
    return seeAll(options.store ?? this.#parts.store(), options.way ?? first, { ...sight, ...policy })
  }

  /**
   * One answer, which is of one epoch whatever is written meanwhile: of all rows where the store can give them, else of
   * the row that is named.
   */
  async look(row: Row): Promise<Look> {
    const { target, template } = this
    const [way = 'scan'] = this.ways()
    const isWhole = way === 'scan' || way === 'range'
    const plan = isWhole
      ? planOf(target.schema, way, { limit: 500 })
      : pointPlan(way, row, { target, template, candidates: [] })
    const { rows, epoch } = await answerOf(this.#parts.store(), target, plan)
    const asked = keyText(target.schema, row)
    const of = (content: Iterable<Row>) =>
      isWhole ? [...content] : [...content].filter((one) => keyText(target.schema, one) === asked)
    return { rows, epoch, isWhole, of }
  }

  /** Fails unless the store shows exactly these rows (default: what was last applied). */
  async expectRows(
    why: string,
    rows: readonly Row[] = [...this.content.values()],
    options: { readonly way?: ReadOperation } = {},
  ): Promise<void> {
    const given = await this.see(options)
    const told = this.#parts.capabilities.commit === 'lake' ? asLakeHas : (all: readonly Row[]) => all
    const difference = differenceOf(this.target.schema, told(rows), told(given))
    if (difference === null) return
    throw new CheckFailure({
      what: `the store shows other rows than it should: ${describeDifference(difference)}`,
      expected: `${rows.length} rows`,
      came: `${given.length} rows`,
      where: `read ${options.way ?? this.ways()[0]} of epoch ${this.epoch}`,
      why,
      remedy: 'Compare what write stored with what read returns for the keys named.',
    })
  }
}

function wrongReceipt(receipt: Receipt, epoch: number): CheckFailure {
  return new CheckFailure({
    what: `the receipt names epoch ${receipt.epoch} instead of ${epoch}`,
    where: 'store.write',
    why: 'the runtime notes from it what the store has',
    remedy: 'Return the epoch of the commit that was given.',
  })
}

function nothingToSee(): CheckFailure {
  return new CheckFailure({
    what: 'the store declares no operation by which its rows could be seen',
    where: 'capabilities.operations',
    why: 'scan, range, key, or get with the filter eq is needed to prove anything about its content',
    remedy: 'Declare one of them.',
  })
}
