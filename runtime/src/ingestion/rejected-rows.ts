/** How many rows of a table may be left out because they cannot be carried. */
import { SluiceError } from '@sluice/sdk'
import { qualified } from '../manifest/context.ts'
import type { ManifestSet, RejectedLimit } from '../manifest/manifest-set.ts'
import type { ReadOutcome } from './read-table.ts'

/** Where quality.yaml says nothing. */
export const MAX_REJECTED: RejectedLimit = { percent: 0.1, rows: 100 }

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

/** Throws INVALID_DATA `too_many_rejected` where more rows are left out than a limit has in rows and in share. */
export function checkRejected(
  table: string,
  { rejected, rowCount, rejectReasons }: Pick<ReadOutcome, 'rejected' | 'rowCount' | 'rejectReasons'>,
  limits: readonly RejectedLimit[],
): void {
  const total = rejected + rowCount
  const broken = limits.find(({ percent, rows }) => rejected > rows && rejected * 100 > percent * total)
  if (broken === undefined) return
  const why = rejectReasons.length === 0 ? '' : ` (${rejectReasons.join('; ')})`
  const most = `${broken.percent} % and ${broken.rows} rows`
  throw new SluiceError(
    'INVALID_DATA',
    `${table}: ${rejected} of ${total} rows cannot be carried${why}, which is more than ${most}`,
    {
      code: 'too_many_rejected',
      remedy:
        'Correct the rows in the source, or allow more with max_rejected in quality.yaml. The table is as it was.',
      details: { rejected, rows: total },
    },
  )
}
