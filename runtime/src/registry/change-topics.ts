/** Which topics of changed rows there are, what was sent to them, and what keeps them from the newest epoch. */
import type { RecordedError } from './deployments.ts'
import { change, json, many, type Queryable } from './sql.ts'

export interface ChangeTopicKey {
  readonly productId: string
  readonly variant: 'masked' | 'clear'
}

/** What was sent: from which of the lake's variants, by which key, how each column is shown, and who may read it. */
export interface TopicShape {
  readonly source: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, string>>
  readonly level: string
}

export interface ChangeTopicState extends ChangeTopicKey {
  readonly tenant: string
  readonly topic: string
  readonly madeFor: string
  readonly shape: TopicShape | null
  readonly readers: readonly string[]
  readonly refused: string | null
  readonly sentEpoch: number | null
  readonly error: RecordedError | null
  readonly attempts: number
}

const COLUMNS = `product_id as "productId", variant, tenant, topic, made_for as "madeFor", shape, readers, refused,
  sent_epoch as "sentEpoch", error, attempts`

export function changeTopicsOf(db: Queryable, productId: string): Promise<ChangeTopicState[]> {
  const statement = `select ${COLUMNS} from change_topics where product_id = $1 order by variant desc`
  return many<ChangeTopicState>(db, 'reading change topics', statement, [productId])
}

/** Notes that there is to be such a topic, before anything is made. Repeatable. */
export async function expectChangeTopic(
  db: Queryable,
  key: ChangeTopicKey & { readonly tenant: string; readonly topic: string },
): Promise<void> {
  await change(
    db,
    'noting a change topic',
    `insert into change_topics (product_id, variant, tenant, topic) values ($1, $2, $3, $4)
     on conflict (product_id, variant) do nothing`,
    [key.productId, key.variant, key.tenant, key.topic],
  )
}

export interface MadeTopic {
  readonly madeFor: string
  readonly shape: TopicShape | null
  readonly readers: readonly string[]
  readonly refused: string | null
  /** Nothing that was sent is in the topic. */
  readonly isEmpty: boolean
}

/** The topic and its rules are as they have to be for `madeFor`. */
export async function changeTopicMade(db: Queryable, key: ChangeTopicKey, made: MadeTopic): Promise<void> {
  await change(
    db,
    'keeping a change topic',
    `update change_topics set made_for = $3, shape = $4, readers = $5, refused = $6, updated_at = now(),
       sent_epoch = case when $7 then null else sent_epoch end
     where product_id = $1 and variant = $2`,
    [key.productId, key.variant, made.madeFor, json(made.shape), json(made.readers), made.refused, made.isEmpty],
  )
}

/** Every reader that a rule may name, until the rules are known to be made: also after a crash between. */
export async function rememberReaders(db: Queryable, key: ChangeTopicKey, readers: readonly string[]): Promise<void> {
  const statement = 'update change_topics set readers = $3 where product_id = $1 and variant = $2'
  await change(db, 'keeping a change topic', statement, [key.productId, key.variant, json(readers)])
}

/** The bus has the epoch. False where another process has the turn by now: nothing was changed. */
export async function changesSent(
  db: Queryable,
  key: ChangeTopicKey,
  epoch: number,
  lease: { readonly relay: string; readonly token: number },
): Promise<boolean> {
  const moved = await change(
    db,
    'keeping what was sent',
    `update change_topics set sent_epoch = $3, error = null, attempts = 0, updated_at = now()
     where product_id = $1 and variant = $2 and coalesce(sent_epoch, 0) < $3
       and exists (select 1 from event_relays where name = $4 and token = $5)`,
    [key.productId, key.variant, epoch, lease.relay, lease.token],
  )
  return moved > 0
}

/** The topic was emptied. */
export async function nothingSent(db: Queryable, key: ChangeTopicKey): Promise<void> {
  const statement = 'update change_topics set sent_epoch = null where product_id = $1 and variant = $2'
  await change(db, 'keeping what was sent', statement, [key.productId, key.variant])
}

/** What was sent last is of that epoch, which the registry does not know: with the next one the topics begin anew. */
export async function topicsHave(db: Queryable, productId: string, epoch: number): Promise<void> {
  const statement = 'update change_topics set sent_epoch = $2 where product_id = $1 and sent_epoch is not null'
  await change(db, 'keeping what was sent', statement, [productId, epoch])
}

/** All topics of the product are tried again later. Without an error it only waits. */
export async function changesDelayed(
  db: Queryable,
  productId: string,
  error: RecordedError | null,
  retryAfterMs: number,
): Promise<void> {
  await change(
    db,
    'keeping why changes wait',
    `update change_topics set error = $2, attempts = case when $2::jsonb is null then 0 else attempts + 1 end,
       next_attempt_at = clock_timestamp() + make_interval(secs => $3::float8 / 1000), updated_at = now()
     where product_id = $1`,
    [productId, json(error), retryAfterMs],
  )
}

/** What was wrong is over. */
export async function changesResumed(db: Queryable, productId: string): Promise<void> {
  const statement = `update change_topics set error = null, attempts = 0, next_attempt_at = clock_timestamp()
    where product_id = $1 and (attempts > 0 or error is not null)`
  await change(db, 'keeping that changes go on', statement, [productId])
}

/** After the topic itself is gone. */
export async function forgetChangeTopic(db: Queryable, key: ChangeTopicKey): Promise<void> {
  const statement = 'delete from change_topics where product_id = $1 and variant = $2'
  await change(db, 'forgetting a change topic', statement, [key.productId, key.variant])
}

/** Nothing is carried any more, so nothing has to be kept for it. */
export async function forgetChangeTopics(db: Queryable): Promise<void> {
  await change(db, 'forgetting change topics', 'delete from change_topics', [])
}

/** What makes topics and rules be looked at again when it changes. */
const MADE_FOR = `p.current_version || '/' || p.classification || '/' || $1::text || '/' || coalesce(
  (select m.version from materializations m where m.product_id = p.id and m.epoch = f.epoch), '')
  || coalesce((select '/' || md5(string_agg(r.digest || r.column_name || r.class, ',' order by r.digest, r.column_name, r.class))
    from raised_columns r where r.product_id = p.id and r.blocks), '')`

export interface DueProduct {
  readonly id: string
  readonly tenant: string
  readonly madeFor: string
}

/** Products whose topics have to be made, changed or filled, and whose time has come. `settings` stands for ours. */
export function productsWithChanges(db: Queryable, settings: string, limit: number): Promise<DueProduct[]> {
  return many<DueProduct>(
    db,
    'looking for changes',
    `select p.id, p.tenant, ${MADE_FOR} as "madeFor"
     from products p join tenants t on t.slug = p.tenant left join product_fences f on f.product_id = p.id
     where t.status = 'active' and p.current_version is not null and p.status <> 'retired' and p.preview_of is null
       and (not exists (select 1 from change_topics c where c.product_id = p.id)
         or exists (select 1 from change_topics c where c.product_id = p.id and c.next_attempt_at <= clock_timestamp()
           and (c.made_for <> ${MADE_FOR} or c.refused is null and coalesce(c.sent_epoch, 0) < coalesce(f.epoch, 0))))
     order by p.id limit $2`,
    [settings, limit],
  )
}

/** Topics without a product in service; with `all` every topic. */
export function changeTopicsWithoutProduct(db: Queryable, all: boolean, limit: number): Promise<ChangeTopicState[]> {
  return many<ChangeTopicState>(
    db,
    'looking for change topics',
    `select ${COLUMNS} from change_topics c
     where $1 or not exists (select 1 from products p
       where p.id = c.product_id and p.current_version is not null and p.status <> 'retired')
     order by topic limit $2`,
    [all, limit],
  )
}

export interface ChangeBacklog {
  readonly variant: 'masked' | 'clear'
  readonly topics: number
  /** That have an error now. */
  readonly failing: number
  /** Epochs that the lake has and the topics have not, the most of any. */
  readonly behind: number
}

export function changeBacklog(db: Queryable): Promise<ChangeBacklog[]> {
  return many<ChangeBacklog>(
    db,
    'reading change topics',
    `select variant, count(*) as topics, count(*) filter (where error is not null) as failing,
       coalesce(max(greatest(0, f.epoch - greatest(c.sent_epoch, f.after_epoch))), 0) as behind
     from change_topics c left join product_fences f on f.product_id = c.product_id
     where c.refused is null group by variant`,
  )
}
