import type { Proof } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'
import { runVersions } from './versions/run.ts'

export const versions: Proof = {
  name: 'versions',
  proves:
    'Of random pairs of versions of a product, what the plan says is what the deployment does: rows, what each group is shown of each column, refusals. Who reads meanwhile is answered by the one version or by the other, whole, and with nothing that the policy of the moment hides; and a rollback brings every value back.',
  costs: 'an hour for 1,000 pairs, and nothing beyond npm',
  options: [
    '--pairs N     in all (1000)',
    '--minutes N   begins no pair after that (600)',
    '--lanes N     products at a time, each in a tenant of its own (2)',
    '--chain N     the versions of one product alone, as a failure names it; keeps no record',
  ],
  of: [...RUNTIME_SOURCES, 'prove/versions/**/*.ts'],
  run: runVersions,
}
