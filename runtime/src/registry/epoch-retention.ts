/**
 * Which epochs go. One that no snapshot of the lake is left of can be neither read nor gone back to; what is left of it is
 * its quality. Those go by the age and number that runs go by.
 */
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
         from materializations m, lateral (
           select m.epoch <> all($5::bigint[])
             and not exists (select from jsonb_each_text(m.snapshots) s where s.value = any($2::text[])) as is_gone) l
         where m.product_id = $1 and m.epoch is not null) e
       where e.is_gone and e.is_after_gone
         and (e.place > $4 or e.committed_at < clock_timestamp() - make_interval(days => $3))
         and e.committed_at < clock_timestamp() - interval '1 hour'
         and e.epoch < (select least(f.epoch,
             (select min(s.applied_epoch) from endpoint_states s where s.product_id = $1),
             (select min(t.sent_epoch) from change_topics t where t.product_id = $1))
           from product_fences f where f.product_id = $1)
         and not exists (select from violating_rows v where v.materialization_id = e.id)
         and not exists (select from runs r where r.id = e.run_id and r.state in ('queued', 'running'))
       order by e.epoch limit ${EPOCHS_AT_ONCE})`,
    [productId, snapshots, days, most, epochs],
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
