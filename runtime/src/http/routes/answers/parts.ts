/** What the schemas of answers are made of. Members of answers may be added, never taken away. */
import { type TSchema, Type } from 'typebox'

export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

export const text = (description?: string) => Type.String(description === undefined ? {} : { description })

export const time = () => Type.String({ format: 'date-time' })

export const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) })

export const oneOf = (names: readonly string[]) => Type.Union(names.map((name) => Type.Literal(name)))

export const anything = () => Type.Record(Type.String(), Type.Unknown())

/** A page of a list. */
export const pageOf = (item: TSchema) =>
  Type.Object({
    data: Type.Array(item),
    next_cursor: nullable(text('Give it back as cursor to read on; null at the end.')),
  })

export const Failure = Type.Object(
  { code: text(), message: text(), remedy: Type.Optional(text()) },
  { description: 'Why it failed, and what to do.' },
)
