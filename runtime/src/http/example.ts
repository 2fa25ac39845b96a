/** One request of an operation, and what it is answered, for the OpenAPI document. */
export interface OperationExample {
  /** Texts in the path, by name. */
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
  /** A JSON body; of a form, the text of each part. */
  readonly body?: unknown
  /** JSON answers by status. */
  readonly answers?: Readonly<Record<number, unknown>>
  /** The same answer in other media types, as text. Files of bytes have none. */
  readonly also?: Readonly<Record<string, string>>
}

/** By the name of the operation. */
export type OperationExamples = Readonly<Record<string, OperationExample>>
