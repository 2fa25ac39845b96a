/** Manifests, plans and deployments, as answers have them. */

import { Type } from 'typebox'
import { anything, count, Failure, nullable, oneOf, text, time } from './parts.ts'
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

const shown = () => text('`clear`, the name of a mask, `absent` (no such column) or `forbidden` (the product).')

const PlanRows = Type.Object(
  {
    before: nullable(count('In the lake today.')),
    after: nullable(count('By what the lake has of the inputs, before checks put any aside.')),
    leaving: nullable(count('Rows of today whose key the version has not.')),
    coming: nullable(count('Rows of the version whose key is not there today.')),
    not_counted: nullable(text('Why something of it was not counted.')),
  },
  { description: 'Rows that leave and come; null of a deployment.' },
)

const PlanAccess = Type.Object(
  {
    groups: Type.Array(
      Type.Object({
        type: oneOf(['everybody', 'team', 'user']),
        name: nullable(text()),
        issuer: nullable(text('Of a user.')),
        columns: Type.Array(Type.Object({ name: text(), before: shown(), after: shown() })),
      }),
      { description: 'Those who are shown something else come first. Users by their own grants, as viewers.' },
    ),
    groups_left_out: count('There are more groups than a plan tells of.'),
    changed_left_out: count('Of those left out that were judged: how many are shown something else.'),
  },
  { description: 'What readers are shown of each column; null of a deployment.' },
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
    estimated_from: nullable(oneOf(['count', 'source', 'last_epoch'])),
    rows: nullable(PlanRows),
    access: nullable(PlanAccess),
    cost: nullable(
      Type.Array(
        Type.Object({
          place: text('`lake`, or the type of an endpoint.'),
          variant: text(),
          rows: nullable(count('All of them, as known as `estimated_from` says.')),
          bytes: nullable(
            count(
              'As files of the lake have them today; null where that is not known, or columns are hidden from you.',
            ),
          ),
          whole: Type.Boolean({
            description: 'Whether all of it is written; where not, at most that: rows that stay as they are are not.',
          }),
        }),
        { description: 'What is written anew, and where; null of a deployment.' },
      ),
    ),
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

const storesHash = text(
  'Of what the stores would do, and of the inputs that are read by a log which no mode asks for: a deployment that sends it does this, or is refused.',
)

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
