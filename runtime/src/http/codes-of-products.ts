/** Codes of manifests, deployments, and of the runs that make the rows of products. Part of the one table in `codes.ts`. */

export const PRODUCT_CODES = {
  manifests_invalid: { status: 422, title: 'Manifests refused', remedy: 'Correct what errors[] names.' },
  manifests_missing: { status: 409, title: 'No manifests yet', remedy: 'Upload the six manifests first.' },
  transform_invalid: {
    status: 422,
    title: 'Transform refused',
    remedy: 'Correct the transform or the output columns.',
  },
  lossy_cast: {
    status: 422,
    title: 'Cast loses something',
    remedy: 'Change the type, cast in the transform, or name the column in allow_lossy.',
  },
  check_invalid: { status: 422, title: 'Check refused', remedy: 'Correct the checks that errors[] names.' },
  plan_changed: { status: 409, title: 'Plan changed', remedy: 'Plan again, and deploy by the digest of that plan.' },
  draft_of_another: {
    status: 409,
    title: 'Manifests of somebody else',
    remedy: 'Review their plan and deploy by its digest, or upload the manifests that you mean.',
  },
  class_lowering_unnamed: {
    status: 409,
    title: 'Lowered class not named',
    remedy: 'Keep the class, or name the columns in lower.',
  },
  classes_changed: {
    status: 409,
    title: 'Classes changed',
    remedy: 'Plan again, and deploy again.',
  },
  version_exists: { status: 409, title: 'Version exists', remedy: 'Deploy the changes under a new version.' },
  breaking_change: { status: 409, title: 'Breaking change', remedy: 'Deploy it as a new major version.' },
  breaks_downstream: {
    status: 409,
    title: 'Products made of this one would break',
    remedy: 'Keep the columns that they read, or name the products in breaks.',
  },
  product_cycle: { status: 422, title: 'Product made of itself', remedy: 'Take one of the inputs away.' },
  product_in_use: {
    status: 409,
    title: 'Products are made of it',
    remedy: 'Delete those first, or deploy versions of them that do without it.',
  },
  product_being_deleted: {
    status: 409,
    title: 'Product being deleted',
    remedy: 'Wait until it is gone. Where the deletion failed, delete it again, or repeat this in ten minutes.',
  },
  not_deployed: { status: 409, title: 'Not deployed', remedy: 'Deploy a version first.' },
  product_paused: {
    status: 409,
    title: 'Product paused',
    remedy: 'Resume the product, or deploy a version of it.',
  },
  registry_outdated: {
    status: 409,
    title: 'Registry older than the lake',
    remedy: 'Say which one is right: resume the product with right=lake or right=registry.',
  },
  product_not_paused: { status: 409, title: 'Product not paused', remedy: 'Nothing has to be resumed.' },
  too_many_rejected: {
    status: 422,
    title: 'Too many rows rejected',
    remedy: 'Correct the rows in the source, or allow more with max_rejected in quality.yaml.',
  },
  input_failed: { status: 409, title: 'Input failed', remedy: 'Correct what the table says, then sync again.' },
  preview_unsupported: {
    status: 422,
    title: 'No preview of such a transform',
    remedy: 'Deploy the version and read the product.',
  },
  preview_too_large: {
    status: 422,
    title: 'Too much for a preview',
    remedy: 'Deploy the version and read the product.',
  },
  preview_exists: {
    status: 409,
    title: 'Product with a preview',
    remedy: 'Promote the preview or discard it, and wait until its rows are gone.',
  },
  preview_not_found: { status: 404, title: 'No preview', remedy: 'Deploy a version with stage: preview.' },
  input_not_ingested: { status: 409, title: 'Input not ingested', remedy: 'Sync its connection.' },
  input_forbidden: {
    status: 403,
    title: 'Input may not be read',
    remedy: 'Let somebody deploy the product who may read its inputs.',
  },
  inputs_of_several_waves: {
    status: 409,
    title: 'Inputs rest on different rows',
    remedy: 'It is made when the input that is behind has been made.',
  },
  inputs_unchanged: {
    status: 409,
    title: 'Inputs unchanged',
    remedy: 'Nothing is to be done. To make it all the same: sluice product materialize.',
  },
  backing_off: {
    status: 409,
    title: 'Tried again later',
    remedy: 'See the incident of the product, or sync the connection to try it now.',
  },
  left_to_run: {
    status: 409,
    title: 'Left to a run of its own',
    remedy: 'Look at that run, or wait for the epoch: it is made of the newest rows.',
  },
  input_behind: {
    status: 409,
    title: 'Input not made anew',
    remedy: 'Correct what keeps the product that is its input from being made.',
  },
  version_differs: {
    status: 422,
    title: 'New version differs',
    remedy: 'See what differs in the quality of the product; deploy with accept_differences where it is meant.',
  },
  comparison_forbidden: {
    status: 403,
    title: 'Comparison forbidden',
    remedy: 'Compare columns that you may see, or have somebody deploy who is cleared for them.',
  },
  quality_blocked: { status: 422, title: 'Quality checks failed', remedy: 'Review the checks and the source data.' },
} as const
