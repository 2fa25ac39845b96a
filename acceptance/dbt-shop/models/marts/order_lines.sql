{{ config(materialized='incremental', unique_key=['order_id', 'line_no']) }}
select lines.*, orders.order_date, row_number() over (partition by sku order by order_date, lines.order_id, line_no) as nth_of_sku
from {{ ref('stg_shop__lines') }} as lines
join {{ ref('orders') }} on orders.order_id = lines.order_id
{% if is_incremental() %}
where orders.order_date >= (select max(order_date) from {{ this }})
{% endif %}
