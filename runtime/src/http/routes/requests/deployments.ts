/** Bodies of requests that put versions in service, or beside the one that is. */
import { Type } from 'typebox'

const Lower = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 500 }), {
    maxItems: 1000,
    description: 'Columns whose class becomes lower by this: those that are not named keep theirs, or it is refused.',
  }),
)

const Breaks = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 500 }), {
    maxItems: 1000,
    description:
      'Products made of this one, namespace.name, that may not be made any more by this: it is refused where one of those is not named.',
  }),
)

export const RollbackRequest = Type.Object(
  {
    version: Type.Optional(Type.String({ maxLength: 100, description: 'A version that was in service.' })),
    snapshot_id: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,19}$',
        'x-expected': 'the number of a snapshot',
        description: 'Of a snapshot of the product.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
  },
  {
    additionalProperties: false,
    minProperties: 1,
    oneOf: [{ required: ['version'] }, { required: ['snapshot_id'] }],
  },
)

const AcceptDifferences = Type.Optional(
  Type.Boolean({
    default: false,
    description:
      'Whether the version comes into service however much its first rows differ from those that are served: `new_version` of quality.yaml refuses nothing then. It is on the audit record.',
  }),
)

export const DeployRequest = Type.Object(
  {
    version: Type.String({ maxLength: 100 }),
    dry_run: Type.Optional(Type.Boolean({ default: false })),
    digest: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Of the plan that was reviewed. Absent: the manifests are deployed where you uploaded them last.',
      }),
    ),
    stores_hash: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'Of the plan that was reviewed. Absent: stores do what they would do by now, and inputs without a mode are read as they would be.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
    accept_differences: AcceptDifferences,
    stage: Type.Optional(
      Type.Literal('preview', {
        description:
          'The version is made beside the one in service, which stays, and read as `<namespace>.<product>@preview` by developers alone, until it is promoted, discarded, or over.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const PromoteRequest = Type.Object(
  {
    digest: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Of the preview that was reviewed. Absent: the preview is promoted where you made it.',
      }),
    ),
    lower: Lower,
    breaks: Breaks,
    accept_differences: AcceptDifferences,
  },
  { additionalProperties: false },
)

export const PreviewRequest = Type.Object(
  {
    digest: Type.String({ maxLength: 100, description: 'Of the plan of the draft that is meant.' }),
    rows: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
    lower: Lower,
  },
  { additionalProperties: false },
)
