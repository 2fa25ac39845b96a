/**
 * Which epochs go. One that no snapshot of the lake is left of can be neither read nor gone back to; what is left of it is
 * its quality. Those go by the age and number that runs go by.
 */
import { GONE } from './materializations.ts'
import { change, type Queryable } from './sql.ts'

export interface EpochRetention {
  /** Snapshots that any of the product's lake tables has. */
  readonly snapshots: readonly string[]
  /** Epochs that these say they are of. */
  readonly epochs: readonly number[]
  readonly days: number
  readonly most: number
}

const EPOCHS_AT_ONCE = 1_000

/** SQL, of a materialization `m` of the product $1: whether the lake has nothing of it, by its snapshots and the epochs that these are of. */
const isGone = (snapshots: string, epochs: string) => `(m.epoch <> all(${epochs}::bigint[])
  and not exists (select from jsonb_each_text(m.snapshots) s where s.value = any(${snapshots}::text[])))`

/** SQL, of an epoch `e` of the product $1. */
const IS_USED_BY_NONE = `e.committed_at < clock_timestamp() - interval '1 hour'
  and e.epoch < (select least(f.epoch,
      (select min(s.applied_epoch) from endpoint_states s where s.product_id = $1),
      (select min(t.sent_epoch) from change_topics t where t.product_id = $1))
    from product_fences f where f.product_id = $1)
  and not exists (select from violating_rows v where v.materialization_id = e.id)
  and not exists (select from runs r where r.id = e.run_id and r.state in ('queued', 'running'))`

/**
 * At most a thousand; returns how many. These stay, too: the first one, and the one after each that can be read. Whoever
 * asks for a moment is given the newest epoch before it: without them it would be an older one that the lake still has, and
 * not what was true then. And those that stores and topics of changes have to come from, that a running run has made,
 * and that violating rows are shown of.
 */
function pruneEpochs(
  db: Queryable,
  productId: string,
  { snapshots, epochs, days, most }: EpochRetention,
): Promise<number> {
  return change(
    db,
    'removing old epochs',
    `delete from materializations where id in (
       select e.id from (
         select m.id, m.epoch, m.run_id, m.committed_at, l.is_gone,
           lag(l.is_gone) over (order by m.epoch) as is_after_gone, row_number() over (order by m.epoch desc) as place
         from materializations m, lateral (select ${isGone('$2', '$5')} as is_gone) l
         where m.product_id = $1 and m.epoch is not null) e
       where e.is_gone and e.is_after_gone
         and (e.place > $4 or e.committed_at < clock_timestamp() - make_interval(days => $3))
         and ${IS_USED_BY_NONE}
       order by e.epoch limit ${EPOCHS_AT_ONCE})`,
    [productId, snapshots, days, most, epochs],
  )
}

/**
 * Notes of the epochs that are gone and stay by which masks nobody knew their rows to be made: of none that there are. Logins of the
 * SQL catalog are told of a table that no epoch of keeps from them. Repeatable.
 */
export async function noteGoneMasks(
  db: Queryable,
  productId: string,
  { snapshots, epochs }: Pick<EpochRetention, 'snapshots' | 'epochs'>,
): Promise<void> {
  await change(
    db,
    'noting the masks of old epochs',
    `update materializations e set masks = gone.masks
     from (
       select m.id, jsonb_object_agg(v.key, (
         select coalesce(jsonb_object_agg(c.name, coalesce(m.masks -> v.key ->> c.name, '${GONE}')), '{}')
         from jsonb_array_elements_text(v.value) c (name))) as masks
       from materializations m, jsonb_each(m.masked_columns) v
       where m.product_id = $1 and m.epoch is not null and ${isGone('$2', '$3')} group by m.id) gone
     where e.id = gone.id and e.masks is distinct from gone.masks and ${IS_USED_BY_NONE}`,
    [productId, snapshots, epochs],
  )
}

/** All that go now. */
export async function pruneAllEpochs(
  db: Queryable,
  productId: string,
  retention: EpochRetention,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0
  for (let gone = EPOCHS_AT_ONCE; gone === EPOCHS_AT_ONCE; removed += gone) {
    signal.throwIfAborted()
    gone = await pruneEpochs(db, productId, retention)
  }
  return removed
}
