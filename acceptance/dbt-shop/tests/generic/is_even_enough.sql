{% test is_even_enough(model, column_name, most) %}
select {{ column_name }}, count(*) as n from {{ model }} group by 1 having count(*) > {{ most }}
{% endtest %}
