/**
 * What inputs have for a connection that are products: none can be called so. Their table is `namespace.name`, so that a
 * product is a source like others wherever tables, columns and classes are looked up by name.
 */
export const PRODUCTS = '#products'
