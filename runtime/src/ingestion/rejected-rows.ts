/** How many rows of a table may be left out because they cannot be carried. */
import { SluiceError } from '@sluice/sdk'
import { qualified } from '../manifest/context.ts'
import type { ManifestSet, RejectedLimit } from '../manifest/manifest-set.ts'
import { exceeds, MAX_REJECTED } from '../quality/max-rejected.ts'
import type { ReadOutcome } from './read-table.ts'

/** Of each product that reads the table: the table serves them all, so it has to bear with every one. */
export function rejectedLimits(
  connection: string,
  table: string,
  products: readonly { readonly manifests: ManifestSet }[],
): readonly RejectedLimit[] {
  return products
    .filter(({ manifests }) =>
      manifests.inputs.some((input) => input.connection === connection && qualified(input.table) === table),
    )
    .map(({ manifests }) => manifests.quality.maxRejected ?? MAX_REJECTED)
}

/** More rows of a table are left out than its products bear with. Says how many to those alone who may read the table. */
export class TooManyRejected extends SluiceError {
  readonly outcome: RejectedOutcome

  constructor(table: string, { percent, rows }: RejectedLimit, outcome: RejectedOutcome) {
    super('INVALID_DATA', `${table}: more than ${percent} % and more than ${rows} of its rows cannot be carried`, {
      code: 'too_many_rejected',
      remedy:
        'Correct the rows that the quarantine of the connection lists and sync again, which reads them again, or allow more with max_rejected in quality.yaml. The table is as it was.',
    })
    this.outcome = outcome
  }
}

type RejectedOutcome = Pick<ReadOutcome, 'rejected' | 'rowCount' | 'rejectReasons' | 'refused'>

/** Throws INVALID_DATA `too_many_rejected` where more rows are left out than a limit has in rows and in share. */
export function checkRejected(table: string, outcome: RejectedOutcome, limits: readonly RejectedLimit[]): void {
  const { rejected, rowCount } = outcome
  const total = rejected + rowCount
  const broken = limits.find((limit) => exceeds(rejected, total, limit))
  if (broken !== undefined) throw new TooManyRejected(table, broken, outcome)
}
