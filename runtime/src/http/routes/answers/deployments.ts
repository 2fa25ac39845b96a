/** Manifests, plans and deployments, as answers have them. */

import { Type } from 'typebox'
import { anything, Failure, nullable, oneOf, text, time } from './parts.ts'
import { InputRead } from './products.ts'

const Problem = Type.Object({
  manifest: text(),
  line: Type.Integer(),
  column: Type.Integer(),
  path: text(),
  message: text(),
  hint: Type.Optional(text()),
})

export const ParsedManifests = Type.Object(
  { manifests: anything(), warnings: Type.Array(Problem) },
  { $id: 'ParsedManifests' },
)

const sharedChecks = Type.Array(
  Type.Object({
    product: text('Whose it is: namespace.name.'),
    version: nullable(text('Of that product, from which it was taken at the upload; null: not kept then.')),
    version_in_service: nullable(text('Of that product today; null: none.')),
    differs: Type.Boolean({ description: 'Whether that one has another check of this name, or none.' }),
    check: Type.Record(Type.String(), Type.Unknown(), {
      description: 'As quality.yaml would say it, with every default.',
    }),
  }),
  { description: 'Checks of other products that it uses, as they run: what its own texts only name.' },
)

export const ManifestTexts = Type.Object(
  {
    version: nullable(text()),
    digest: text(),
    uploaded_by: Type.Optional(text('Of those uploaded last: whose they are.')),
    uploaded_at: Type.Optional(time()),
    deployed_by: Type.Optional(text('Of a version.')),
    deployed_at: Type.Optional(time()),
    manifests: Type.Record(Type.String(), Type.String()),
    shared_checks: sharedChecks,
  },
  { $id: 'ManifestTexts' },
)

export const Deployment = Type.Object(
  {
    id: text(),
    product_id: text(),
    kind: oneOf(['deploy', 'rollback']),
    version: text(),
    state: oneOf(['running', 'succeeded', 'failed']),
    error: nullable(Failure),
    created_by: text(),
    created_at: time(),
    finished_at: nullable(time()),
  },
  { $id: 'Deployment' },
)

const DeployPlan = Type.Object(
  {
    version: text(),
    verdict: oneOf(['initial', 'compatible', 'additive', 'breaking']),
    changes: Type.Array(
      Type.Object({ verdict: text(), subject: text(), column: Type.Optional(text()), reason: text() }),
    ),
    lake: Type.Array(text()),
    stores: Type.Array(
      Type.Object({
        endpoint: text(),
        variant: text(),
        steps: Type.Array(Type.Object({ action: text(), description: text(), statement: Type.Optional(text()) })),
        hash: nullable(text('Of the steps, as the store gives it; null: the copy is built anew.')),
        columns: Type.Array(
          Type.Object({
            name: text(),
            verdict: oneOf(['required', 'optional', 'forbidden', 'unsatisfiable']),
            reason: text(),
          }),
          { description: 'What the store makes of each column; none where it does not judge schemas.' },
        ),
      }),
    ),
    estimated_rows: nullable(Type.Number()),
    lowered_classes: Type.Array(text(), { description: 'Columns whose class becomes lower: to be named in lower.' }),
    reaches: Type.Array(
      Type.Object({
        product_id: text(),
        product: text(),
        namespace: text(),
        columns: Type.Array(Type.Object({ name: text(), classification: text() })),
        blocked: Type.Boolean({
          description: 'Whether readers without those classes are refused until it is deployed anew.',
        }),
        in_service: Type.Boolean({ description: 'False: past versions alone have such columns.' }),
      }),
      { description: 'Other products with columns made of source columns that are hidden from now on.' },
    ),
    downstream: Type.Array(
      Type.Object({
        product_id: text(),
        product: text(),
        namespace: text(),
        owner: Type.Object({ team: nullable(text()), email: nullable(text()) }),
        breaks: Type.Array(text(), {
          description:
            'Columns that it reads and would not be given any more: it could not be made, and is to be named in breaks.',
        }),
        more_open: Type.Boolean({ description: 'Whether more may read it than this version.' }),
        expectations: Type.Array(
          Type.Object({
            name: text(),
            severity: oneOf(['error', 'warn']),
            problem: nullable(text('Why the version cannot keep it, whatever its rows are. Null: its rows will show.')),
          }),
          { description: 'What it expects of the rows: `expectations` of its quality.yaml.' },
        ),
      }),
      { description: 'Products in service that are made of this one.' },
    ),
    warnings: Type.Array(Problem),
    shared_checks: sharedChecks,
    reads: Type.Array(InputRead, { description: 'How each input is read from the next sync on.' }),
    notes: Type.Array(text(), { description: 'What happens beside the change itself.' }),
    problems: Type.Array(Type.Object({ code: text(), message: text(), remedy: nullable(text()) }), {
      description: 'What would refuse the deployment itself; of a dry run only.',
    }),
  },
  { $id: 'DeployPlan' },
)

export const digest = text('Of the manifests: a deployment that sends it deploys these, or nothing.')

const storesHash = text('Of what the stores would do: a deployment that sends it has them do this, or is refused.')

export const DryRun = Type.Object({
  dry_run: Type.Literal(true),
  verdict: text(),
  digest,
  stores_hash: storesHash,
  plan: DeployPlan,
})

export const Deployed = Type.Object({
  dry_run: Type.Literal(false),
  deployment: Deployment,
  run_id: nullable(text('The run that makes its first content; null where it waits for a sync.')),
  digest,
  stores_hash: storesHash,
  plan: DeployPlan,
})

export const RolledBack = Type.Object({ deployment: Deployment, run_id: text(), notes: Type.Array(text()) })
