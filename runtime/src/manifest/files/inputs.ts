import { Type } from 'typebox'
import { SchemaContractFields } from './schema-contract.ts'
import { closed, header, MANIFEST_LIMITS, oneOf, pattern, text } from './shape.ts'

export const INPUT_MODES = ['full', 'incremental', 'cdc'] as const
/** How rows that are gone from the source are found. What a read in full brings not is gone: it needs no word of it. */
export const DELETE_MODES = ['key_sweep', 'unseen'] as const
/** Which epoch of a product is read; see decision 176. */
export const INPUT_EPOCHS = ['same_wave', 'latest'] as const
export const SCHEMA_CHANGE_MODES = ['evolve', 'freeze', 'fail'] as const

const sourceColumn = (description: string) => Type.String({ description, minLength: 1, maxLength: 255 })

export const InputFields = closed({
  name: pattern(
    'The alias by which the transform and the checks name it.',
    '^[A-Za-z_][A-Za-z0-9_]{0,62}$',
    'letters, digits and underscores, at most 63, not beginning with a digit',
  ),
  connection: Type.Optional(text('The name of a connection.', MANIFEST_LIMITS.nameLength)),
  table: Type.Optional(text('The table at the source: schema.name, or the name of one in the schema public.', 255)),
  product: Type.Optional(
    text(
      'Another product, in place of connection and table: namespace.name. Its newest rows are read, as whoever deploys is shown them.',
      2 * MANIFEST_LIMITS.nameLength,
    ),
  ),
  epoch: Type.Optional(
    oneOf(
      INPUT_EPOCHS,
      'Of a product: same_wave waits until all inputs rest on the same rows of what they are made of; latest takes what is there. Default: same_wave.',
    ),
  ),
  mode: Type.Optional(
    oneOf(
      INPUT_MODES,
      'How rows are read; cdc: by the log of the source, which tells deletes, too. Default, decided when the version is deployed: cdc where the source has all that this needs, and a limit for what it keeps; else incremental where a safe cursor can be had, else full.',
    ),
  ),
  cursor_column: Type.Optional(sourceColumn('The column that grows with every change, for incremental reading.')),
  primary_key: Type.Optional(
    Type.Array(sourceColumn('A column of the source.'), {
      description: 'The key of the source rows. Default: what the source declares.',
      minItems: 1,
      maxItems: 32,
      uniqueItems: true,
    }),
  ),
  columns: Type.Optional(
    Type.Array(sourceColumn('A column of the source.'), {
      description: 'The columns to read. Default: all.',
      minItems: 1,
      maxItems: MANIFEST_LIMITS.columns,
      uniqueItems: true,
    }),
  ),
  where: Type.Optional(text('One boolean expression that rows must meet.', MANIFEST_LIMITS.whereLength)),
  deletes: Type.Optional(
    oneOf(
      DELETE_MODES,
      'How an incremental input finds rows that are gone: key_sweep reads all keys and compares. Default: key_sweep.',
    ),
  ),
  deletes_reason: Type.Optional(text('Why rows that are gone may stay: with deletes unseen.', 500)),
  on_schema_change: Type.Optional(
    oneOf(
      SCHEMA_CHANGE_MODES,
      'What becomes of the product when the source changes, whatever the kind of change; schema_contract tells them apart. Default: evolve.',
    ),
  ),
  schema_contract: Type.Optional(SchemaContractFields),
})

export const InputsFile = closed(
  {
    ...header('Inputs'),
    inputs: Type.Array(InputFields, {
      description: 'What the product is made of.',
      minItems: 1,
      maxItems: MANIFEST_LIMITS.inputs,
    }),
  },
  { title: 'inputs.yaml' },
)

export type InputFields = Type.Static<typeof InputFields>
export type InputsFile = Type.Static<typeof InputsFile>
