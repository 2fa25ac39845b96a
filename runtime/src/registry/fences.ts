/**
 * The lock of a product and the numbers that it guards: the *token*, raised by each new writer so that older ones are
 * refused, and the *epoch*, raised by each commit of the lake. Of a product that is made anew under a name both go on above those
 * of the former one: whoever still goes by that one, in a runtime or a store, meets no number twice.
 */
import { SluiceError } from '@sluice/sdk'
import { change, maybeOne, type Queryable, type Transaction } from './sql.ts'
import { withTenant } from './tenant-first.ts'

export interface ProductFence {
  readonly token: bigint
  /** Of the last commit; 0 before the first. */
  readonly epoch: number
  /** Of the next commit. */
  readonly nextEpoch: number
}

/** The number of the next epoch. */
export const NEXT_EPOCH = 'greatest(epoch, after_epoch) + 1'

interface Row {
  readonly token: number
  readonly epoch: number
  readonly nextEpoch: number
}

const COLUMNS = `token, epoch, ${NEXT_EPOCH} as "nextEpoch"`

/** Locks the product's fence until the transaction ends. Throws FENCED where the product is gone. */
export async function lockFence(tx: Transaction, productId: string): Promise<ProductFence> {
  const row = await maybeOne<Row>(
    tx,
    'locking the product',
    `${withTenant('(select tenant from products where id = $1)')}
     select ${COLUMNS} from product_fences where product_id = $1 and exists (select from kept) for no key update`,
    [productId],
  )
  return toFence(row)
}

/**
 * The first step of every transaction that commits for a product: locks the fence and throws FENCED where a newer
 * writer has raised the token since.
 */
export async function checkFence(tx: Transaction, productId: string, token: bigint): Promise<ProductFence> {
  const fence = await lockFence(tx, productId)
  if (fence.token !== token) throw fenced()
  return fence
}

/** Makes the caller the product's only writer: whoever holds a former token is FENCED from now on. */
export async function raiseFence(db: Queryable, productId: string): Promise<ProductFence> {
  const row = await maybeOne<Row>(
    db,
    'fencing the product',
    `update product_fences set token = token + 1 where product_id = $1 returning ${COLUMNS}`,
    [productId],
  )
  return toFence(row)
}

/** No epoch from here on has that number, or one below: they were given before, whatever the registry knows of it. */
export async function passEpoch(tx: Transaction, productId: string, epoch: number): Promise<void> {
  const text = 'update product_fences set after_epoch = greatest(after_epoch, $2) where product_id = $1'
  await change(tx, 'passing an epoch over', text, [productId, epoch])
}

/** More than a registry that is put back could lack. */
const TOKENS_PASSED = 1_000_000

/**
 * Raises the token far above that one, where it is the newest. For a store that has seen a newer one than the registry has given:
 * that was put back from a dump, or was lost in part with its server.
 */
export async function passTokens(db: Queryable, productId: string, token: bigint): Promise<void> {
  const text = 'update product_fences set token = token + $3 where product_id = $1 and token = $2'
  await change(db, 'passing tokens over', text, [productId, token, TOKENS_PASSED])
}

/** Whether nobody has raised the token since; false where the product is gone. */
export async function isNewestWriter(db: Queryable, productId: string, token: bigint): Promise<boolean> {
  const text = 'select token from product_fences where product_id = $1'
  const row = await maybeOne<Pick<Row, 'token'>>(db, 'reading the lock of the product', text, [productId])
  return row !== null && BigInt(row.token) === token
}

const LOOK_MS = 2_000

/**
 * Runs `work`, and ends it by its signal within seconds of another raising the token: who writes to stores is asked nothing by
 * the registry meanwhile, and whoever removes the product waits for him. The signal's reason is FENCED then.
 */
export async function whileNewestWriter<T>(
  db: Queryable,
  productId: string,
  token: bigint,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let isDone = false
  const wait = (): void => {
    if (!isDone) timer = setTimeout(() => void look(), LOOK_MS)
  }
  const look = async (): Promise<void> => {
    // What cannot be known now is looked at again.
    const isNewest = await isNewestWriter(db, productId, token).catch(() => true)
    if (isNewest) wait()
    else ended.abort(fenced())
  }
  wait()
  try {
    return await work(AbortSignal.any([signal, ended.signal]))
  } finally {
    isDone = true
    clearTimeout(timer)
  }
}

function toFence(row: Row | null): ProductFence {
  if (row === null) throw fenced()
  return { ...row, token: BigInt(row.token) }
}

export function fenced(): SluiceError {
  return new SluiceError('FENCED', 'a newer writer has taken over', {
    code: 'fenced',
    remedy: 'Nothing to do: the newer run goes on with the work.',
  })
}
