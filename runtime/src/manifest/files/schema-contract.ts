import { Type } from 'typebox'
import { closed, oneOf } from './shape.ts'

export const CONTRACT_WORDS = ['evolve', 'freeze', 'quarantine_row', 'null_value', 'fail'] as const
export const CONTRACT_KINDS = ['tables', 'columns', 'types', 'nullability'] as const

export type ContractWord = (typeof CONTRACT_WORDS)[number]
export type ContractKind = (typeof CONTRACT_KINDS)[number]

const word = (description: string) => Type.Optional(oneOf(CONTRACT_WORDS, description))

export const SchemaContractFields = closed(
  {
    tables: word(
      'A table that is gone. freeze goes on with the rows that were read last; evolve and fail end the run.',
    ),
    columns: word(
      'Columns that are new or gone. freeze and null_value go on without the new ones, and with null for those gone; quarantine_row puts rows aside that have a value in a new one.',
    ),
    types: word(
      'Columns of another type. freeze keeps the former one and ends the run at a value that does not fit it; quarantine_row puts its row aside, null_value makes it null.',
    ),
    nullability: word(
      'Nulls in columns that had to have values. freeze and fail end the run, quarantine_row puts the rows aside.',
    ),
  },
  {
    description:
      'What becomes of the product when the source changes, by the kind of change. Default: on_schema_change.',
  },
)
